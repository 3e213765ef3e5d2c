; private.ll: A private array, in blocks of two dimensions.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  %ty = call i32 @cucpu.sreg.tid.y()
  %local = alloca [8 x i32], align 4
  br label %fill
fill:
  %i = phi i32 [0, %0], [%i1, %fill]
  %i64 = zext i32 %i to i64
  %p = getelementptr [8 x i32], ptr %local, i64 0, i64 %i64
  %v = mul i32 %i, %tid
  %v1 = add i32 %v, %ty
  store i32 %v1, ptr %p, align 4
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, 8
  br i1 %more, label %fill, label %read
read:
  %k = and i32 %tid, 7
  %k64 = zext i32 %k to i64
  %pk = getelementptr [8 x i32], ptr %local, i64 0, i64 %k64
  %r = load i32, ptr %pk, align 4
  %row = mul i32 %ty, 24
  %at = add i32 %row, %tid
  %a64 = sext i32 %at to i64
  %o = shl i64 %a64, 2
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  store i32 %r, ptr %qc, align 4
  ret void
}
