; cells.ll: A cell between its neighbours, looked at by those threads alone for which they say so.
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
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %first = add i64 %in, 16
  %a = add i64 %first, %o
  %above = add i64 %a, FAR
  %pa = inttoptr i64 %a to ptr
  %pb = inttoptr i64 %above to ptr
  %va = load i32, ptr %pa, align 4
  %vb = load i32, ptr %pb, align 4
  %s = add i32 %va, %vb
  %kind = and i32 %s, 3
  %three = icmp eq i32 %kind, 3
  br i1 %three, label %join, label %next
next:
  %two = icmp eq i32 %kind, 2
  br i1 %two, label %look, label %none
look:
  %middle = add i64 %a, 4
  %pm = inttoptr i64 %middle to ptr
  %vm = load i32, ptr %pm, align 4
  %odd = and i32 %vm, 1
  br label %join
none:
  br label %join
join:
  %v = phi i32 [ 7, %0 ], [ %odd, %look ], [ %kind, %none ]
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
  store i32 %v, ptr %pd, align 4
  ret void
}
