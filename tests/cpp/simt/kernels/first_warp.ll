; first_warp.ll: The first warp alone goes one way; that is no branch that lanes of a group could part at.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  %t64 = zext i32 %tid to i64
  %shared = call ptr @cucpu.shared()
  %own = getelementptr i32, ptr %shared, i64 %t64
  %hash = mul i32 %tid, -1640531535
  store i32 %hash, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %first = icmp PREDICATE i32 %tid, BOUND
  br i1 %first, label %yes, label %no
yes:
  %far = getelementptr i32, ptr %own, i64 1
  %v = load i32, ptr %far, align 4
  br label %join
no:
  %o = shl i64 %t64, 3
  %w = trunc i64 %o to i32
  br label %join
join:
  %r = phi i32 [%v, %yes], [%w, %no]
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %at = shl i64 %t64, 2
  %a = add i64 %out, %at
  %q = inttoptr i64 %a to ptr
  br i1 %first, label %store, label %other
store:
  store i32 %r, ptr %q, align 4
  br label %end
other:
  %r1 = add i32 %r, 1
  store i32 %r1, ptr %q, align 4
  br label %end
end:
  ret void
}
