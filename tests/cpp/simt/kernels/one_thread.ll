; one_thread.ll: One thread, whose number comes from memory, adds to shared memory and reads; others up to a bound write behind a barrier.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %pk = getelementptr i8, ptr %params, i64 8
  %k = load i32, ptr %pk
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  %hash = mul i32 %i, -1640531535
  store i32 %hash, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %other = icmp ne i32 %tid, %k
  br i1 %other, label %join, label %one
one:
  %old = atomicrmw add ptr %own, i32 7 monotonic
  %before = getelementptr i32, ptr %own, i64 -1
  %vb = load i32, ptr %before, align 4
  %mixed = xor i32 %old, %vb
  %again = add i32 %mixed, %hash
  br label %join
join:
  %v = phi i32 [%i, %0], [%again, %one]
  %most = add i32 %k, 3
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  store i32 %v, ptr %q, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %upto = icmp ule i32 %tid, %most
  br i1 %upto, label %some, label %behind
some:
  %vs = load i32, ptr %own, align 4
  %vv = add i32 %vs, %v
  store i32 %vv, ptr %q, align 4
  br label %behind
behind:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %is = icmp eq i32 %tid, %k
  br i1 %is, label %write, label %end
write:
  store i32 %k, ptr %q, align 4
  br label %end
end:
  ret void
}
