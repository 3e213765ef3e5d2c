; early_return.ll: Threads from n on return; the others mirror their values behind a barrier.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %ret = icmp sge i32 %tid, %n
  br i1 %ret, label %leave, label %on
leave:
  call void @cucpu.exit()
  unreachable
on:
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  %o = shl i64 %t64, 2
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  store i32 %v, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %n1 = sub i32 %n, 1
  %mirror = sub i32 %n1, %tid
  %m64 = sext i32 %mirror to i64
  %qm = getelementptr i32, ptr %shared, i64 %m64
  %vm = load i32, ptr %qm, align 4
  %b = add i64 %out, %o
  %qb = inttoptr i64 %b to ptr
  store i32 %vm, ptr %qb, align 4
  ret void
}
