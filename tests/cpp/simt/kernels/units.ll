; units.ll: Each thread copies a unit of some elements.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pi = getelementptr i8, ptr %params, i64 16
  %order = load i64, ptr %pi
  %tid = call i32 @cucpu.sreg.tid.x()
INDEX
  %w = zext i32 %index to i64
  %ro = mul i64 %w, BYTES
  %a = add i64 %in, %ro
  %d = add i64 %out, %ro
ACCESSES
  ret void
}
