; first_thread.ll: Before the first barrier one thread clears a count; then each thread adds as often as memory says, and the first writes the sum.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %shared = call ptr @cucpu.shared()
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  %other = icmp ne i32 %tid, 0
  br i1 %other, label %start, label %clear
clear:
  store i32 0, ptr %shared, align 4
  br label %start
start:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %n = load i32, ptr %q, align 4
  %times = and i32 %n, 7
  %none = icmp eq i32 %times, 0
  br i1 %none, label %met, label %again
again:
  %k = phi i32 [0, %start], [%next, %again]
  %old = atomicrmw add ptr %shared, i32 1 monotonic, !cucpu.space !0
  %next = add i32 %k, 1
  %more = icmp ult i32 %next, %times
  br i1 %more, label %again, label %met
met:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  br i1 %other, label %end, label %write
write:
  %sum = load i32, ptr %shared, align 4
  store i32 %sum, ptr %q, align 4
  br label %end
end:
  ret void
}
!0 = !{!"shared"}
