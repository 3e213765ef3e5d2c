// SPDX-License-Identifier: Apache-2.0
// cpu/engine/llvm_pch.cpp: the translation unit that owns the precompiled LLVM headers; it holds no
// code.
