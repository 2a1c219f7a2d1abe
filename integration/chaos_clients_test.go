package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/integration/chaos"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// chaosTTL is short, so that a node that forgot votes again soon, and a short pause makes a
// client lose its lease.
const (
	chaosTTL         = 1500 * time.Millisecond
	chaosNodeTimeout = 100 * time.Millisecond
	chaosClients     = 2 // in each process
	chaosLocks       = 3 // for each kind of place
	chaosPlain       = 1 // of them, without readers and downgrades
	chaosPermits     = 3 // of the semaphore of each kind of place
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
	client, err := testclient.OpenInProcess(ctx, urls, redlock.WithTTL(chaosTTL), redlock.WithNodeTimeout(chaosNodeTimeout),
		redlock.WithRestartGuard(chaosTTL), redlock.WithOwnerLabel(name), redlock.WithTrace(&redlock.Trace{Lease: v.recordLoss}))
	if ctx.Err() != nil {
		return nil // the faults lasted until the end
	}
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

// visitOne visits one of the locks, half of the times as a reader where there are any, or two of
// them at once, in any order, or takes permits. Some writers downgrade their lease and go on as readers.
func (v *visitor) visitOne(ctx context.Context, locks string) error {
	if rand.N(4) == 0 {
		lease, err := v.acquirePermits(ctx, semaphoreOf(locks), 1+rand.N(chaosPermits))
		if lease == nil {
			return err
		}
		return v.visit(lease, v.change)
	}
	order := rand.Perm(chaosLocks)
	names := []string{lockOf(locks, order[0])}
	mixed := order[0] >= chaosPlain
	reads, work := false, v.change
	switch {
	case rand.N(4) == 0:
		names = append(names, lockOf(locks, order[1]))
	case mixed && rand.N(2) == 0:
		reads, work = true, v.readTwice
	case mixed && rand.N(6) == 0:
		work = v.changeAndRead
	}
	lease, err := v.lock(ctx, names, reads)
	if lease == nil {
		return err
	}
	return v.visit(lease, work)
}

// visit does some work under a lease, and releases it.
func (v *visitor) visit(lease *redlock.Lease, work func(*redlock.Lease) error) error {
	return errors.Join(work(lease), v.observe(lease), v.unlock(lease))
}

// change adds one to the number of each lock.
func (v *visitor) change(lease *redlock.Lease) error {
	return v.twice(lease, func(before *chaos.Op) error {
		_, err := v.step(lease, chaos.Op{Name: before.Name, Value: before.Value + 1}, v.at.write)
		return err
	})
}

// readTwice reads the number, and reads it again after some time.
func (v *visitor) readTwice(lease *redlock.Lease) error {
	return v.twice(lease, func(before *chaos.Op) error {
		_, err := v.step(lease, chaos.Op{Name: before.Name}, v.at.read)
		return err
	})
}

// twice reads the numbers of all locks and, after some time, goes on with each that it could read.
func (v *visitor) twice(lease *redlock.Lease, goOn func(before *chaos.Op) error) error {
	var known []*chaos.Op
	for _, name := range locksOf(lease) {
		value, err := v.step(lease, chaos.Op{Name: name}, v.at.read)
		if err != nil {
			return err
		}
		if value != nil {
			known = append(known, value)
		}
	}
	if err := v.hold(lease, v.holdFor()); err != nil {
		return err
	}
	for _, before := range known {
		if err := goOn(before); err != nil {
			return err
		}
	}
	return nil
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
	op := opOf(lease, chaos.Op{Kind: chaos.Downgrade, Call: chaos.Now()})
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

// opOf fills in what the lease says of itself. An operation without a name is one of all of its
// locks.
func opOf(lease *redlock.Lease, op chaos.Op) chaos.Op {
	names := locksOf(lease)
	if op.Name == "" {
		op.Name = strings.Join(names, ", ")
	}
	op.Owner, op.Set, op.Shared, op.Token = lease.Owner(), len(names) > 1, lease.Shared(), lease.Token()
	return op
}

// chaosValidity is the ttl less the library's default allowance for drift.
const chaosValidity = chaosTTL - chaosTTL/100 - 2*time.Millisecond

// step reads or writes the number of one lock. It returns nil if the visitor must not go on.
func (v *visitor) step(lease *redlock.Lease, op chaos.Op, do func(*redlock.Lease, *chaos.Op) (bool, error)) (*chaos.Op, error) {
	op = opOf(lease, op)
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
	op := opOf(lease, chaos.Op{Kind: chaos.Held, Call: chaos.Now()})
	left := lease.Remaining()
	if left == 0 {
		return nil
	}
	op.Until, op.Return = op.Call+left, chaos.Now()
	return v.log.Add(op)
}

func (v *visitor) unlock(lease *redlock.Lease) error {
	op := opOf(lease, chaos.Op{Kind: chaos.Unlocking, Call: chaos.Now()})
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
func (v *visitor) recordLoss(e redlock.LeaseEvent) {
	if e.Kind != "lost" {
		return
	}
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
	return 0, fmt.Errorf("no event within %v after the lease of %s was lost", timeout, lease.Owner())
}

// counter is a number in a file that only the lock protects: its clients are not paused on
// purpose. They check the lease before they write, and again after it: if the write took too
// long, which no lock can prevent, they log it as late.
type counter struct{ dir string }

func openCounter(dir string) (place, error) { return counter{dir}, nil }

func (c counter) close() error { return nil }

func (c counter) works() int { return 40 }

func (c counter) file(lock string) string { return filepath.Join(c.dir, lock) }

func (c counter) read(lease *redlock.Lease, op *chaos.Op) (bool, error) {
	value, err := c.value(op.Name)
	if err != nil || !lease.Valid() {
		return false, err
	}
	op.Kind, op.Value = chaos.Read, value
	return true, nil
}

func (c counter) value(lock string) (int64, error) {
	text, err := os.ReadFile(c.file(lock))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func (c counter) write(lease *redlock.Lease, op *chaos.Op) (bool, error) {
	file, err := os.OpenFile(c.file(op.Name), os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	if lease.Valid() {
		err = writeNumber(file, op.Value)
		op.Kind = chaos.Write
		if !lease.Valid() {
			op.Kind = chaos.Late
		}
	}
	return true, errors.Join(err, file.Close())
}

// writeNumber overwrites the number in one piece: it is never seen half written.
func writeNumber(file *os.File, n int64) error {
	_, err := file.WriteAt(fmt.Appendf(nil, "%20d\n", n), 0)
	return err
}

func (c counter) create(lock string) error {
	file, err := os.Create(c.file(lock))
	if err != nil {
		return err
	}
	return errors.Join(writeNumber(file, 0), file.Close())
}

// register is a number in a database, with a fence of two tokens. Reads go past the fence too:
// otherwise an older lease could write between a newer one's read and its write, or while a
// reader holds the lock. A lease that holds the lock alone reads as a writer. Its clients do not
// check whether the lease is valid: they are paused and killed, and rely on the fence.
//
// The journal has the committed operations: a killed client may not have logged them.
type register struct{ db *sql.DB }

const (
	registerSchema = `
		CREATE TABLE registers (lock TEXT PRIMARY KEY, value INTEGER NOT NULL DEFAULT 0,
			fence INTEGER NOT NULL DEFAULT 0, read_fence INTEGER NOT NULL DEFAULT 0);
		CREATE TABLE journal (kind TEXT, lock TEXT, owner TEXT, shared INTEGER, token INTEGER, value INTEGER, call INTEGER);`
	registerRead = "UPDATE registers SET read_fence = max(read_fence, @token) WHERE lock = @lock AND fence <= @token"
	passFence    = "UPDATE registers SET fence = @token WHERE lock = @lock AND fence <= @token AND read_fence < @token"
	setValue     = "UPDATE registers SET value = @value, fence = @token WHERE lock = @lock AND fence <= @token AND read_fence < @token"
)

func openRegister(dir string) (place, error) { return connectRegister(dir) }

func connectRegister(dir string) (register, error) {
	// Paused clients may be in a transaction: others wait for them.
	file := filepath.ToSlash(filepath.Join(dir, "registers.db"))
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return register{db}, err
}

func (r register) close() error { return r.db.Close() }

// works is large, so that a client that is paused is mostly a holder.
func (r register) works() int { return 160 }

func (r register) read(_ *redlock.Lease, op *chaos.Op) (bool, error) {
	statement := passFence
	if op.Shared {
		statement = registerRead
	}
	return r.pass(op, chaos.FencedRead, chaos.StaleRead, statement)
}

func (r register) write(_ *redlock.Lease, op *chaos.Op) (bool, error) {
	return r.pass(op, chaos.FencedWrite, chaos.StaleWrite, setValue)
}

// pass runs a statement that passes the fence, unless its token is stale.
func (r register) pass(op *chaos.Op, passed, stale chaos.Kind, statement string) (bool, error) {
	ctx := context.Background()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	err = fence.Exec(ctx, tx, op.Name, op.Token, statement,
		sql.Named("token", op.Token), sql.Named("lock", op.Name), sql.Named("value", op.Value))
	if errors.Is(err, fence.ErrStale) {
		op.Kind = stale
		return false, nil
	}
	if err != nil {
		return false, err
	}
	op.Kind = passed
	if err := tx.QueryRow("SELECT value FROM registers WHERE lock = ?", op.Name).Scan(&op.Value); err != nil {
		return false, err
	}
	if _, err := tx.Exec("INSERT INTO journal (kind, lock, owner, shared, token, value, call) VALUES (?, ?, ?, ?, ?, ?, ?)",
		op.Kind, op.Name, op.Owner, op.Shared, op.Token, op.Value, int64(op.Call)); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

func (r register) create(lock string) error {
	_, err := r.db.Exec("INSERT INTO registers (lock) VALUES (?)", lock)
	return err
}

func (r register) value(lock string) (value int64, err error) {
	err = r.db.QueryRow("SELECT value FROM registers WHERE lock = ?", lock).Scan(&value)
	return value, err
}

// takeJournal empties the journal and returns what was in it.
func (r register) takeJournal() (ops []chaos.Op, err error) {
	rows, err := r.db.Query("DELETE FROM journal RETURNING kind, lock, owner, shared, token, value, call")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var op chaos.Op
		if err := rows.Scan(&op.Kind, &op.Name, &op.Owner, &op.Shared, &op.Token, &op.Value, (*int64)(&op.Call)); err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, rows.Err()
}
