; count.ll: Barriers that count.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  br label %loop
loop:
  %k = phi i32 [2, %0], [%k1, %loop]
  %sum = phi i32 [0, %0], [%sum1, %loop]
  %r = urem i32 %tid, %k
  %p = icmp eq i32 %r, 0
  %n = call i32 @cucpu.barrier.red.popc(i32 0, i32 0, i1 true, i1 %p)
  %nk = mul i32 %n, %k
  %sum1 = add i32 %sum, %nk
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 7
  br i1 %more, label %loop, label %end
end:
  %t64 = zext i32 %tid to i64
  %o = shl i64 %t64, 2
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  store i32 %sum1, ptr %qc, align 4
  ret void
}
