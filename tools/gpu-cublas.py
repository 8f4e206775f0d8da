#!/usr/bin/env python3
"""cuBLAS's rate (torch.matmul, bf16, sums in f32) on the products of an 8B model: what prompts are compared with.
   gpu-cublas.py [ROWS,...]     512,2048 by default
Weights take turns, so that each product reads its own from memory, as a model's layers do."""
import sys

try:
    import torch
except ImportError:
    sys.exit('gpu-cublas: torch is not installed')
if not torch.cuda.is_available(): sys.exit('gpu-cublas: torch finds no GPU')

PRODUCTS = (('q, k, v', 4096, 6144), ('output', 4096, 4096), ('gate, up', 4096, 28672), ('down', 14336, 4096))
TURNS_BYTES = 512 << 20  # more than the L2 cache, several times


def microseconds(columns, outputs, rows):
    n = max(2, TURNS_BYTES // (2 * columns * outputs))
    weights = [torch.randn(outputs, columns, device='cuda', dtype=torch.bfloat16) * 0.02 for _ in range(n)]
    x = torch.randn(rows, columns, device='cuda', dtype=torch.bfloat16)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(7):
        begin.record()
        for weight in weights: torch.matmul(x, weight.t())
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / n)
    return sorted(times[1:])[3]


def main():
    print(f'torch {torch.__version__}, {torch.cuda.get_device_name()}, torch.matmul of bf16, the median of 6')
    print('| product | rows | us | TFLOP/s |\n| --- | ---: | ---: | ---: |')
    for rows in (int(text) for text in (sys.argv[1] if len(sys.argv) > 1 else '512,2048').split(',')):
        layer, flops = 0.0, 0
        for name, columns, outputs in PRODUCTS:
            us = microseconds(columns, outputs, rows)
            layer += us
            flops += 2 * rows * columns * outputs
            print(f'| {name}, {columns} x {outputs} | {rows} | {us:.1f} | {2e-6 * rows * columns * outputs / us:.0f} |', flush=True)
        print(f'| a layer | {rows} | {layer:.1f} | {1e-6 * flops / layer:.0f} |')


main()
