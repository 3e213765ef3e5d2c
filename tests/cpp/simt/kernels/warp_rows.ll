; warp_rows.ll: A warp for each row, found from the thread's index in the grid.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %row = lshr i32 %i, 5
  %r = zext i32 %row to i64
  %ro = shl i64 %r, 2
  %a = add i64 %in, %ro
  %pa = inttoptr i64 %a to ptr
  %va = load i32, ptr %pa, align 4
  %v = add i32 %va, %i
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
  store i32 %v, ptr %pd, align 4
  ret void
}
