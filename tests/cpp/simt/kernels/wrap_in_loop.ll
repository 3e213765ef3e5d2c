; wrap_in_loop.ll: An index that grows from barrier to barrier and may wrap inside a group, and values
; that a loop with barriers carries around, some of them exchanged. EFFECT: code before the index.
define void @kernel() {
entry:
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pc = getelementptr i8, ptr %params, i64 16
  %counts = load i64, ptr %pc
  %ps = getelementptr i8, ptr %params, i64 24
  %start = load i32, ptr %ps
  %pt = getelementptr i8, ptr %params, i64 28
  %step = load i32, ptr %pt
  %pn = getelementptr i8, ptr %params, i64 32
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %shared = call ptr @cucpu.shared()
  %first = add i32 %start, %tid
  %t64 = zext i32 %tid to i64
  %mine = getelementptr i32, ptr %shared, i64 %t64
  %next = add i32 %tid, 1
  %wrapped = and i32 %next, 63
  %w64 = zext i32 %wrapped to i64
  %other = getelementptr i32, ptr %shared, i64 %w64
  %to = shl i64 %t64, 2
  %ca = add i64 %counts, %to
  %count = inttoptr i64 %ca to ptr
  br label %loop

loop:
  %i = phi i32 [ %first, %entry ], [ %i2, %loop ]
  %t = phi i32 [ 0, %entry ], [ %t2, %loop ]
  %sum = phi i32 [ 0, %entry ], [ %sum2, %loop ]
  %x = phi i32 [ %tid, %entry ], [ %y, %loop ]
  %y = phi i32 [ 5, %entry ], [ %z, %loop ]
  EFFECT
  %w = sext i32 %i to i64
  %h = lshr i64 %w, 40
  %h32 = trunc i64 %h to i32
  %o = shl i64 %w, 2
  %big = call i64 @llvm.smin.i64(i64 %o, i64 400)
  %small = call i64 @llvm.smax.i64(i64 %big, i64 0)
  %a = add i64 %in, %small
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %v1 = add i32 %v, %h32
  store i32 %v1, ptr %mine, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %u = load i32, ptr %other, align 4
  %sum2 = add i32 %sum, %u
  %xu = xor i32 %x, %u
  %z = add i32 %xu, %t
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %i2 = add i32 %i, %step
  %t2 = add i32 %t, 1
  %more = icmp ult i32 %t2, %n
  br i1 %more, label %loop, label %end

end:
  %xy = mul i32 %x, 31
  %yz = add i32 %xy, %y
  %zz = mul i32 %yz, 31
  %last = add i32 %zz, %sum2
  %all = add i32 %last, %z
  %c = add i64 %out, %to
  %qc = inttoptr i64 %c to ptr
  store i32 %all, ptr %qc, align 4
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
