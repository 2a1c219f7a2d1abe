package robfig

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	minHold = 800 * time.Millisecond
	behind  = 100 * time.Millisecond // the second machine's clock
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everySecond is the schedule of the tests, by a clock that is behind.
type everySecond struct{ behind time.Duration }

func (s everySecond) Next(now time.Time) time.Time {
	return cron.Every(time.Second).Next(now.Add(-s.behind)).Add(s.behind)
}

// start runs a job each second on two machines, of which the second one's clock is behind. stop ends all.
func start(job func(machine int)) (stop func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	var ends []func()
	for machine := range 2 {
		client, err := testclient.OpenInProcess(context.Background(), nodes.URLs())
		if err != nil {
			log.Fatal(err)
		}
		schedule := everySecond{time.Duration(machine) * behind}
		jobs := cron.New()
		jobs.Schedule(schedule, cron.NewChain(Exclusive(client, "report", schedule, minHold)).Then(cron.FuncJob(func() { job(machine) })))
		jobs.Start()
		ends = append(ends, func() {
			<-jobs.Stop().Done()
			_ = client.Close()
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
		nodes.Close()
	}
}

// Two machines have the same schedule. One of them runs the job.
func ExampleExclusive() {
	ran := make(chan int, 100)
	stop := start(func(machine int) { ran <- machine })
	defer stop()
	<-ran
	fmt.Println("a machine ran the job")
	// Output:
	// a machine ran the job
}

func TestEachSecondHasOneRun(t *testing.T) {
	var runs atomic.Int32
	began := time.Now()
	stop := start(func(int) { runs.Add(1) })
	require.Eventually(t, func() bool { return runs.Load() >= 4 }, 30*time.Second, 5*time.Millisecond)
	stop()
	// The first second may be one that the machine behind alone has not had yet.
	assert.LessOrEqual(t, float64(runs.Load()), (time.Since(began)+behind).Seconds()+1)
}

func TestALateRunIsLeftToOthers(t *testing.T) {
	client := testclient.Open(t, redlocktest.Start(t, 1).URLs())
	for late, runs := range map[time.Duration]int32{0: 1, time.Hour: 0, -time.Hour: 0} {
		var ran atomic.Int32
		schedule := due(func() time.Time { return time.Now().Add(-late) })
		Exclusive(client, fmt.Sprint(late), schedule, 4*time.Second)(cron.FuncJob(func() { ran.Add(1) })).Run()
		assert.Equal(t, runs, ran.Load(), late)
	}
}

// due is a schedule whose next time is always this one.
type due func() time.Time

func (d due) Next(time.Time) time.Time { return d() }
