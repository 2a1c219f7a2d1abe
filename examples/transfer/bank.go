package main

import "github.com/redlock-go/redlock/fence"

// bank stands for the process that keeps the accounts, which all others call. It compares the
// token of each access in one step with the access.
type bank struct {
	guard fence.Guard
	money map[string]*int64 // of each account, protected by guard; the map does not change
}

func newBank(names []string, money int64) *bank {
	b := &bank{money: make(map[string]*int64)}
	for _, name := range names {
		account := money
		b.money[name] = &account
	}
	return b
}

// access runs f for the holder of both accounts, unless a later holder of one of them came before.
// The guards are taken in the order of the names.
func (b *bank) access(one, other string, token int64, f func()) error {
	return b.guard.Write(min(one, other), token, func() error {
		return b.guard.Write(max(one, other), token, func() error {
			f()
			return nil
		})
	})
}

// balances returns the balances of two accounts. The holder of an exclusive lease reads by Write:
// from then on the holders before it are refused.
func (b *bank) balances(one, other string, token int64) (first, second int64, err error) {
	err = b.access(one, other, token, func() { first, second = *b.money[one], *b.money[other] })
	return first, second, err
}

// set changes the balances of two accounts, both or none.
func (b *bank) set(one string, first int64, other string, second, token int64) error {
	return b.access(one, other, token, func() { *b.money[one], *b.money[other] = first, second })
}

// sum returns the money of all accounts. Nobody may change them meanwhile.
func (b *bank) sum() (sum int64) {
	for _, money := range b.money {
		sum += *money
	}
	return sum
}
