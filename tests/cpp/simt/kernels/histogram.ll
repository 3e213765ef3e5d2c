; histogram.ll: Shared atomics of lanes that collide.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %t64 = zext i32 %tid to i64
  %o = shl i64 %t64, 2
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %shared = call ptr @cucpu.shared()
  %b = lshr i32 %v, 28
  %b64 = zext i32 %b to i64
  %bin = getelementptr i32, ptr %shared, i64 %b64
  %was = atomicrmw add ptr %bin, i32 1 monotonic, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %is = icmp ult i32 %tid, 16
  br i1 %is, label %flush, label %end
flush:
  %own = getelementptr i32, ptr %shared, i64 %t64
  %n = load i32, ptr %own, align 4
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  %old = atomicrmw add ptr %qc, i32 %n monotonic
  br label %end
end:
  ret void
}
!0 = !{!"shared"}
