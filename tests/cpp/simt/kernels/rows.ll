; rows.ll: Rows of a two-dimensional block, with an edge on both sides that has nothing to do.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %ty = call i32 @cucpu.sreg.tid.y()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %x = add i32 %m, %tid
  %most = add i32 %n, -1
  %left = icmp slt i32 %x, 1
  %right = icmp sge i32 %x, %most
  %edge = or i1 %left, %right
  br i1 %edge, label %end, label %body
body:
  %row = mul i32 %ty, %n
  %i = add i32 %row, %x
  %w = sext i32 %i to i64
  %o = shl i64 %w, 2
  %a = add i64 %in, %o
  %b = add i64 %a, -4
  %c = add i64 %a, 4
  %qb = inttoptr i64 %b to ptr
  %qc = inttoptr i64 %c to ptr
  %vb = load i32, ptr %qb, align 4
  %vc = load i32, ptr %qc, align 4
  %v = sub i32 %vc, %vb
  %v1 = add i32 %v, %ctaid
  %d = add i64 %out, %o
  %qd = inttoptr i64 %d to ptr
  store i32 %v1, ptr %qd, align 4
  br label %end
end:
  ret void
}
