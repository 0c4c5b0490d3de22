; SPDX-License-Identifier: Apache-2.0
; Factors of a product of two primes: bit-vector multiplication, solved by bit-blasting and SAT.
(set-logic QF_BV)
(declare-const x (_ BitVec 48))
(declare-const y (_ BitVec 48))
(assert (= (bvmul x y) (_ bv3999944000147 48)))
(assert (bvult x (_ bv2097152 48)))
(assert (bvult y (_ bv2097152 48)))
(assert (bvugt x (_ bv1 48)))
(assert (bvugt y (_ bv1 48)))
(check-sat)
