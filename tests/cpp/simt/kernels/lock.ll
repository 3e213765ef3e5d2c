; lock.ll: A loop that takes a lock.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %q = inttoptr i64 %out to ptr
  br label %retry
retry:
  %pair = cmpxchg ptr %q, i32 0, i32 1 monotonic monotonic
  %ok = extractvalue {i32, i1} %pair, 1
  br i1 %ok, label %end, label %retry
end:
  store atomic i32 0, ptr %q release, align 4
  ret void
}
