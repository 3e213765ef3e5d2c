; scan.ll: A scan by shuffles, then every other operation of a warp.
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
  br label %loop
loop:
  %d = phi i32 [1, %0], [%d1, %loop]
  %x = phi i32 [%v, %0], [%x1, %loop]
  %p = call {i32, i1} @cucpu.shfl.up(i32 %x, i32 %d, i32 0, i32 -1)
  %y = extractvalue {i32, i1} %p, 0
  %ok = extractvalue {i32, i1} %p, 1
  %z = select i1 %ok, i32 %y, i32 0
  %x1 = add i32 %x, %z
  %d1 = shl i32 %d, 1
  %more = icmp ult i32 %d1, 32
  br i1 %more, label %loop, label %end
end:
  %one = call {i32, i1} @cucpu.shfl.bfly(i32 %x1, i32 3, i32 31, i32 -1)
  %b = extractvalue {i32, i1} %one, 0
  %odd = trunc i32 %v to i1
  %votes = call i32 @cucpu.vote.ballot(i1 %odd, i32 -1)
  %any = call i1 @cucpu.vote.any(i1 %odd, i32 240)
  %anyw = zext i1 %any to i32
  %key = and i32 %v, 7
  %peers = call i32 @cucpu.match.any.i32(i32 %key, i32 -1)
  %sum = call i32 @cucpu.redux.add(i32 %v, i32 -1)
  %low = call i32 @cucpu.redux.smin(i32 %v, i32 65535)
  %r1 = xor i32 %b, %votes
  %r2 = add i32 %r1, %anyw
  %r3 = xor i32 %r2, %peers
  %r4 = add i32 %r3, %sum
  %r5 = xor i32 %r4, %low
  %r6 = add i32 %r5, %x1
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  store i32 %r6, ptr %qc, align 4
  ret void
}
