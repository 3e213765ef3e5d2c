; address_before_branch.ll: Addresses that are contiguous in whole groups are made before a branch on what is found there, and used by the lanes behind it.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %pk = getelementptr i8, ptr %params, i64 8
  %k = load i32, ptr %pk
  %tid = call i32 @cucpu.sreg.tid.x()
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  %hash = mul i32 %tid, -1640531535
  store i32 %hash, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %i = add i32 %tid, %k
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %near = getelementptr i8, ptr %shared, i64 %o
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %hot = icmp ugt i32 %v, 2000000000
  br i1 %hot, label %take, label %end
take:
  %s = load i32, ptr %near, align 4
  %sum = add i32 %s, %v
  store i32 %v, ptr %near, align 4
  store i32 %sum, ptr %q, align 4
  br label %end
end:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %x = load i32, ptr %near, align 4
  %y = load i32, ptr %q, align 4
  %z = xor i32 %x, %y
  store i32 %z, ptr %q, align 4
  ret void
}
