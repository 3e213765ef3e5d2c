; reduce.ll: A sum in shared memory, a barrier in every round of a loop that all threads go through alike.
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
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  store i32 %v, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %half = lshr i32 %ntid, 1
  br label %loop
loop:
  %s = phi i32 [%half, %0], [%s1, %join]
  %is = icmp ult i32 %tid, %s
  br i1 %is, label %add, label %join
add:
  %other = add i32 %tid, %s
  %other64 = zext i32 %other to i64
  %qo = getelementptr i32, ptr %shared, i64 %other64
  %vo = load i32, ptr %qo, align 4
  %vs = load i32, ptr %own, align 4
  %sum = add i32 %vo, %vs
  store i32 %sum, ptr %own, align 4
  br label %join
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %s1 = lshr i32 %s, 1
  %more = icmp ne i32 %s1, 0
  br i1 %more, label %loop, label %end
end:
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %write, label %ret
write:
  %total = load i32, ptr %shared, align 4
  %qout = inttoptr i64 %out to ptr
  %old = atomicrmw add ptr %qout, i32 %total monotonic
  br label %ret
ret:
  ret void
}
