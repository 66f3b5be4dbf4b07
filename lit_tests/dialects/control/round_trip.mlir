// RUN: %opt %s -p "" | %opt -p "" | filecheck %s
// RUN: %opt %s -p "" --print-op-generic | %opt -p "" | filecheck %s
