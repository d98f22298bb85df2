package cmd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// mine is a limiter of another module. It answers its n-th request, counted from 1, as told.
func mine(answer func(n int) (limiter.Decision, error)) target.Entry {
	n := 0
	return target.Entry{
		Name: "mine", Summary: "answers as told", BrokenBy: target.Nothing, Rule: model.FixedWindow(),
		New: func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
			return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
				n++
				return answer(n)
			}), nil
		},
	}
}

func TestFurtherEntries(t *testing.T) {
	entry := mine(func(int) (limiter.Decision, error) {
		return limiter.Decision{RetryAfter: 1500 * time.Microsecond}, nil
	})
	code, stdout, stderr := run([]string{"check", "a", "--limiter", "mine"}, entry)
	if code != 1 || !strings.HasPrefix(stdout, "denied    0 of 100 left   retry in 2ms   (mine, ") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if _, stdout, _ := run([]string{"list"}, entry); !strings.Contains(stdout, "\nmine ") {
		t.Errorf("list leaves it out:\n%s", stdout)
	}
	if code, _, stderr := run([]string{"list"}, entry, entry); code != 70 || !strings.Contains(stderr, `"mine"`) {
		t.Errorf("the same name twice: exit code %d, %q", code, stderr)
	}
}

func TestAnyDenialIsExitOne(t *testing.T) {
	entry := mine(func(n int) (limiter.Decision, error) {
		return limiter.Decision{Allowed: n == 2, RetryAfter: time.Duration(2-n) * time.Second}, nil
	})
	code, stdout, _ := run([]string{"check", "a", "--limiter", "mine", "--count", "2"}, entry)
	if code != 1 || strings.Count(stdout, "\n") != 2 {
		t.Errorf("denied, then allowed: exit code %d\n%s", code, stdout)
	}
}

// What was decided before an error is shown, in the form that is written as a whole too.
func TestErrorAfterADecision(t *testing.T) {
	for _, format := range []string{"table", "markdown", "json", "csv"} {
		entry := mine(func(n int) (limiter.Decision, error) {
			if n == 2 {
				return limiter.Decision{}, &limiter.Error{Limiter: "mine", Class: limiter.ClassBusy, Err: errors.New("BUSY")}
			}
			return limiter.Decision{Allowed: true}, nil
		})
		code, stdout, stderr := run([]string{"check", "a", "--limiter", "mine", "--count", "3", "--format", format}, entry)
		if code != 69 || !strings.Contains(stdout, "mine") || !strings.Contains(stderr, "is not ready: BUSY") {
			t.Errorf("%s: exit code %d\n%s%s", format, code, stdout, stderr)
		}
	}
}
