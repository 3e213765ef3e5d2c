; cas.ll: A loop that tries compare-and-swap until it succeeds.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %q = inttoptr i64 %out to ptr
  %tid = call i32 @cucpu.sreg.tid.x()
  %first = load i32, ptr %q, align 4
  br label %retry
retry:
  %old = phi i32 [%first, %0], [%seen, %retry]
  %new = add i32 %old, %tid
  %pair = cmpxchg ptr %q, i32 %old, i32 %new monotonic monotonic
  %seen = extractvalue {i32, i1} %pair, 0
  %ok = icmp eq i32 %seen, %old
  br i1 %ok, label %end, label %retry
end:
  ret void
}
