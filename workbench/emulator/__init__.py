"""Runs a candidate's CUDA C++ on the CPU: right or wrong, and what it did to memory; never how fast.

``build.build(source, instances, mode)`` compiles with g++ and returns a ``Module``, a value that can be
sent. ``execute.execute(plan, module, tensors, options)`` carries a plan out and returns the output tensors
and a ``RunReport``; it imports torch and belongs into a worker process.

Layers, top to bottom: execute, findings, launching, buffers (a plan's steps, words, tensors); module (one
launch through ctypes); runtime/*.cpp (fibers, barriers, access checks, replay); include/*.h and shim/*.h
(what makes g++ accept CUDA); build, toolchain, elf, diagnostics, unsupported (source to shared library).
"""
