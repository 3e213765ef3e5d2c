; tile.ll: A tile with rows of 18 numbers, of an image whose edge is repeated around it.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pw = getelementptr i8, ptr %params, i64 16
  %width = load i32, ptr %pw
  %ph = getelementptr i8, ptr %params, i64 20
  %height = load i32, ptr %ph
  %px = getelementptr i8, ptr %params, i64 24
  %x0 = load i32, ptr %px
  %i = call i32 @cucpu.sreg.tid.x()
  %q = sdiv i32 %i, 18
  %r = srem i32 %i, 18
  %x1 = add i32 %x0, %r
  %x2 = call i32 @llvm.smax.i32(i32 %x1, i32 0)
  %right = add i32 %width, -1
  %x = call i32 @llvm.smin.i32(i32 %x2, i32 %right)
  %y1 = add i32 %q, -1
  %y2 = call i32 @llvm.smax.i32(i32 %y1, i32 0)
  %bottom = add i32 %height, -1
  %y = call i32 @llvm.smin.i32(i32 %y2, i32 %bottom)
  %row = mul i32 %y, %width
  %at = add i32 %row, %x
  %w = sext i32 %at to i64
  %o = shl i64 %w, 2
  %a = add i64 %in, %o
  %p = inttoptr i64 %a to ptr
  %v = load i32, ptr %p, align 4
  %j = zext i32 %i to i64
  %k = shl i64 %j, 2
  %d = add i64 %out, %k
  %pd = inttoptr i64 %d to ptr
  store i32 %v, ptr %pd, align 4
  ret void
}
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
