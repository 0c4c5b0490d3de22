; SPDX-License-Identifier: Apache-2.0
; Factors of a product of two primes: bit-vector multiplication, solved by bit-blasting and SAT.
(set-logic QF_BV)
(declare-const x (_ BitVec 48))
(declare-const y (_ BitVec 48))
(assert (= (bvmul x y) (_ bv17592102158387 48)))
(assert (bvult x (_ bv4194304 48)))
(assert (bvult y (_ bv4194304 48)))
(assert (bvugt x (_ bv1 48)))
(assert (bvugt y (_ bv1 48)))
(check-sat)
