; narrow_histogram.ll: Shared atomics whose addresses are narrow numbers from memory, TYPE of 1 << SHIFT bytes.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %t64 = zext i32 %tid to i64
  %shared = call ptr @cucpu.shared()
  %own = getelementptr i32, ptr %shared, i64 %t64
  store i32 %tid, ptr %own, align 4, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %o = shl i64 %t64, SHIFT
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load TYPE, ptr %q, align ALIGN
  store TYPE 1, ptr %q, align ALIGN
  %b = and TYPE %v, 63
  %b64 = zext TYPE %b to i64
  %bin = getelementptr i32, ptr %shared, i64 %b64
  %was = atomicrmw add ptr %bin, i32 %tid monotonic, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %n = load i32, ptr %own, align 4, !cucpu.space !0
  %ro = shl i64 %t64, 2
  %c = add i64 %out, %ro
  %qc = inttoptr i64 %c to ptr
  store i32 %n, ptr %qc, align 4
  ret void
}
!0 = !{!"shared"}
