; wait.ll: Thread 0 waits for what another block has written; the others wait at the barrier. The line in capitals is what they do meanwhile.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %q = inttoptr i64 %out to ptr
  %tid = call i32 @cucpu.sreg.tid.x()
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  store i32 %tid, ptr %own, align 4, !cucpu.space !1
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  WRITE
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %wait, label %join
wait:
  %seen = load volatile i32, ptr %q, align 4, !cucpu.space !0
  %ready = icmp ne i32 %seen, 0
  br i1 %ready, label %join, label %wait
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %a = getelementptr i32, ptr %q, i64 %t64
  %v = load i32, ptr %own, align 4, !cucpu.space !1
  store i32 %v, ptr %a, align 4, !cucpu.space !0
  ret void
}
!0 = !{!"global"}
!1 = !{!"shared"}
