package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/chaos"
)

// chaosTTL is short, so that a node that forgot votes again soon, and a short pause makes a
// client lose its lease.
const (
	chaosTTL         = 1500 * time.Millisecond
	chaosNodeTimeout = 100 * time.Millisecond
	chaosClients     = 2 // in each process
	chaosLocks       = 3 // for each kind of place
	chaosPlain       = 1 // of them, without readers and downgrades
)

// place is what a lock protects: a number.
type place interface {
	// read and write fill in the operation, and report whether the visitor may go on.
	// Errors are faults of the test.
	read(lease *redlock.Lease, op *chaos.Op) (goOn bool, err error)
	write(lease *redlock.Lease, op *chaos.Op) (goOn bool, err error)
	works() int // of 200 visits, how many take some time
	close() error
}

// chaosJob is the job of a process with several clients. Its args: a directory
// for the histories, one for the places, the nodes' URLs, the process's name and
// what its locks are called.
func chaosJob(open func(dir string) (place, error)) func([]string, <-chan string, func(string, ...any)) error {
	return func(args []string, lines <-chan string, _ func(string, ...any)) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan error, chaosClients)
		for i := range chaosClients {
			go func() {
				ended <- runVisitor(ctx, args[0], args[1], strings.Split(args[2], ","), fmt.Sprint(args[3], ".", i), args[4], open)
			}()
		}
		go func() {
			for range lines {
			}
			cancel()
		}()
		var err error
		for range chaosClients {
			err = errors.Join(err, <-ended)
		}
		return err
	}
}

func runVisitor(ctx context.Context, histories, places string, urls []string, name, locks string, open func(string) (place, error)) (err error) {
	log, err := chaos.OpenLog(histories, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	at, err := open(places)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	v := &visitor{log: log, at: at}
	client, err := redlock.Open(urls, redlock.WithTTL(chaosTTL), redlock.WithNodeTimeout(chaosNodeTimeout),
		redlock.WithLogger(nil), redlock.WithOwnerLabel(name), redlock.WithTrace(&redlock.Trace{LeaseLost: v.recordLoss}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	v.client = client
	for ctx.Err() == nil {
		if err := v.visitOne(ctx, locks); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		time.Sleep(rand.N(4 * time.Millisecond))
	}
	return nil
}

// visitor is a client that locks and adds one to the number in its place, or reads it under a
// share, and logs its operations.
type visitor struct {
	log    *chaos.Log
	at     place
	client *redlock.Client
	losses sync.Map // the end of each lost lease, by its owner
}

// visitOne visits one of the locks, half of the times as a reader where there are any. Some
// writers downgrade their lease and go on as readers.
func (v *visitor) visitOne(ctx context.Context, locks string) error {
	i := rand.N(chaosLocks)
	mixed := i >= chaosPlain
	reads := mixed && rand.N(2) == 0
	work := v.change
	switch {
	case reads:
		work = v.readTwice
	case mixed && rand.N(6) == 0:
		work = v.changeAndRead
	}
	lease, err := v.lock(ctx, lockOf(locks, i), reads)
	if lease == nil {
		return err
	}
	return errors.Join(work(lease), v.observe(lease), v.unlock(lease))
}

// change adds one to the number.
func (v *visitor) change(lease *redlock.Lease) error {
	value, err := v.step(lease, chaos.Op{}, v.at.read)
	if err == nil {
		err = v.hold(lease, v.holdFor())
	}
	if err == nil && value != nil {
		_, err = v.step(lease, chaos.Op{Value: value.Value + 1}, v.at.write)
	}
	return err
}

// readTwice reads the number, and reads it again after some time.
func (v *visitor) readTwice(lease *redlock.Lease) error {
	value, err := v.step(lease, chaos.Op{}, v.at.read)
	if err == nil {
		err = v.hold(lease, v.holdFor())
	}
	if err == nil && value != nil {
		_, err = v.step(lease, chaos.Op{}, v.at.read)
	}
	return err
}

// changeAndRead adds one to the number, downgrades, and goes on reading.
func (v *visitor) changeAndRead(lease *redlock.Lease) error {
	if err := v.change(lease); err != nil {
		return err
	}
	if err := v.downgrade(lease); err != nil {
		return err
	}
	return v.readTwice(lease)
}

// downgrade makes a share of the lease. It is one from the call on, whatever becomes of the
// call: so that is logged before it.
func (v *visitor) downgrade(lease *redlock.Lease) error {
	op := chaos.Op{Kind: chaos.Downgrade, Name: lease.Name(), Owner: lease.Owner(), Token: lease.Token(), Call: chaos.Now()}
	op.Return = op.Call
	if err := v.log.Add(op); err != nil {
		return err
	}
	err := lease.Downgrade(context.Background())
	if err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	return v.observe(lease)
}

// holdFor is mostly short, where there is work at all, sometimes a good part of the
// ttl, and now and then so long that the lease must be renewed.
func (v *visitor) holdFor() time.Duration {
	switch n := rand.N(200); {
	case n < 2:
		return chaosTTL + rand.N(chaosTTL)
	case n < 24:
		return chaosTTL/16 + rand.N(chaosTTL*2/3)
	case n < v.at.works():
		return rand.N(30 * time.Millisecond)
	default:
		return 0
	}
}

// lock asks for the lock or for a share of it, with or without waiting. It returns no lease and
// no error if it was refused.
func (v *visitor) lock(ctx context.Context, name string, shared bool) (*redlock.Lease, error) {
	timeout := rand.N(3 * time.Second)
	if rand.N(2) == 0 {
		timeout = rand.N(200 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond+timeout)
	defer cancel()
	var opts []redlock.Option
	if rand.N(3) == 0 { // a lease without renewals does not get its keys back
		opts = append(opts, redlock.WithoutRenewal())
	}
	mutex := v.client.Mutex(name, opts...)
	if shared {
		mutex = v.client.RWMutex(name, opts...).RLocker()
	}
	acquire := mutex.Lock
	if rand.N(2) == 0 {
		acquire = mutex.TryLock
	}
	op := chaos.Op{Kind: chaos.Acquire, Name: name, Call: chaos.Now()}
	lease, err := acquire(ctx)
	op.Return = chaos.Now()
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrNoQuorum):
		op.Kind, op.Note = chaos.Refused, "no quorum"
		return nil, v.log.Add(op)
	case errors.Is(err, redlock.ErrHeld):
		op.Kind, op.Note = chaos.Refused, "held"
		return nil, v.log.Add(op)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		op.Kind, op.Note = chaos.Refused, "out of time before the first verdict"
		return nil, v.log.Add(op)
	default:
		return nil, err
	}
	op.Owner, op.Shared, op.Token = lease.Owner(), lease.Shared(), lease.Token()
	op.Until = op.Call
	if left := lease.Remaining(); left > 0 {
		// The ballot that granted it began when the validity did: after the call,
		// if it had to wait.
		op.Until = op.Return + left
		op.Call = min(op.Return, max(op.Call, op.Until-chaosValidity))
	}
	return lease, v.log.Add(op)
}

// chaosValidity is the ttl less the library's default allowance for drift.
const chaosValidity = chaosTTL - chaosTTL/100 - 2*time.Millisecond

// step reads or writes. It returns nil if the visitor must not go on.
func (v *visitor) step(lease *redlock.Lease, op chaos.Op, do func(*redlock.Lease, *chaos.Op) (bool, error)) (*chaos.Op, error) {
	op.Name, op.Owner, op.Shared, op.Token = lease.Name(), lease.Owner(), lease.Shared(), lease.Token()
	op.Call = chaos.Now()
	goOn, err := do(lease, &op)
	if err == nil && op.Kind != "" {
		op.Return = chaos.Now()
		err = v.log.Add(op)
	}
	if !goOn {
		return nil, err
	}
	return &op, err
}

// hold keeps the lease for a while, and asks it again and again.
func (v *visitor) hold(lease *redlock.Lease, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end) && lease.Valid(); time.Sleep(min(d, 20*time.Millisecond)) {
		if err := v.observe(lease); err != nil {
			return err
		}
	}
	return nil
}

// observe asks the lease how long it is valid.
func (v *visitor) observe(lease *redlock.Lease) error {
	op := chaos.Op{Kind: chaos.Held, Name: lease.Name(), Owner: lease.Owner(), Shared: lease.Shared(), Token: lease.Token(),
		Call: chaos.Now()}
	left := lease.Remaining()
	if left == 0 {
		return nil
	}
	op.Until, op.Return = op.Call+left, chaos.Now()
	return v.log.Add(op)
}

func (v *visitor) unlock(lease *redlock.Lease) error {
	op := chaos.Op{Kind: chaos.Unlocking, Name: lease.Name(), Owner: lease.Owner(), Shared: lease.Shared(), Token: lease.Token(),
		Call: chaos.Now()}
	op.Return = op.Call
	if err := v.log.Add(op); err != nil {
		return err
	}
	op.Call = chaos.Now()
	err := lease.Unlock(context.Background())
	op.Kind, op.Return = chaos.Release, chaos.Now()
	switch {
	case errors.Is(err, redlock.ErrLost):
		op.Kind = chaos.Lost
		if errors.Is(lease.Err(), redlock.ErrReleased) { // Unlock ended it, and a quorum did not have it
			op.Until = op.Call
		} else if op.Until, err = v.lossOf(lease); err != nil {
			return err
		}
	case errors.Is(err, redlock.ErrNoQuorum): // the undos follow later
		op.Note = "no quorum"
	case err != nil:
		return err
	}
	return v.log.Add(op)
}

// recordLoss records when a lease was lost. The client's own goroutine calls it, some time
// later.
func (v *visitor) recordLoss(e redlock.LeaseLost) {
	now := chaos.Now() // before the event's age is measured: the result is not too late
	v.losses.Store(e.Owner, now-time.Since(e.Time))
}

// lossOf returns when a lost lease ended. It waits for the event.
func (v *visitor) lossOf(lease *redlock.Lease) (time.Duration, error) {
	const timeout = 30 * time.Second
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if at, known := v.losses.LoadAndDelete(lease.Owner()); known {
			return at.(time.Duration), nil
		}
	}
	return 0, fmt.Errorf("no LeaseLost within %v after the lease of %s was lost", timeout, lease.Owner())
}
