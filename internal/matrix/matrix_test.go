package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/redisd"
)

func TestTheMirrorIsThatOfThisRelease(t *testing.T) {
	release := filepath.Join(t.TempDir(), "os-release")
	for text, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n": "bookworm", "ID=\"debian\"\nVERSION_CODENAME=\"trixie\"\n": "trixie",
		"ID=ubuntu\nVERSION_CODENAME=noble\n": "", "ID=debian\n": "",
	} {
		if err := os.WriteFile(release, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := codename(release); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	lines := "bookworm-security http://a/debian-security/\nbookworm http://b/debian/\nstable http://c/\n"
	if got := mirrorOf("bookworm", lines); got != "http://b/debian/" {
		t.Error(got)
	}
	if got := mirrorOf("trixie", lines); got != "" {
		t.Error(got)
	}
}

func TestBackportsBuildUponTheirRelease(t *testing.T) {
	m := mirror{uri: "http://m/debian/"}
	for suite, want := range map[string]int{"trixie": 1, "bookworm-backports": 2} {
		text := m.sources(suite)
		if strings.Count(text, "deb ") != want || !strings.HasSuffix(text, " http://m/debian/ "+suite+" main\n") {
			t.Errorf("%s:\n%s", suite, text)
		}
	}
}

// apt reads what is written for it, and looks nowhere else.
func TestAptTakesItsConfiguration(t *testing.T) {
	apt, err := exec.LookPath("apt-config")
	if err != nil {
		t.Log("without apt this is not tried")
		return
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "apt.conf")
	if err := os.WriteFile(conf, []byte(aptConf("/s", "/s/redis")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(apt, "-c", conf, "dump").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`Dir::State::lists "/s/lists";`, `Dir::State::status "/s/status";`, `Dir::Cache::archives "/s/redis/archives";`,
		`Dir::Etc::sourceparts "/dev/null";`,
	} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "APT::Update::Post-Invoke:: ") {
		t.Errorf("a hook of the system is left:\n%s", out)
	}
}

func TestWhatAptSays(t *testing.T) {
	plan := "NOTE: This is only a simulation!\nInst libc6 (2.41-12 Debian:13/stable [amd64]) []\nInst redis-tools (5:8.0.2-3 Debian:13/stable [amd64])\nConf libc6 (2.41-12 Debian)\n"
	if got := planned(plan); len(got) != 2 || got["redis-tools"] != "5:8.0.2-3" || got["libc6"] != "2.41-12" {
		t.Error(got)
	}
	said := "Reading...\nE: Failed to fetch http://host.example/debian/x.deb  404\nE: more\n"
	if got := complaint(said); got != "Failed to fetch the mirror  404" {
		t.Error(got)
	}
}

func TestTestsAreCounted(t *testing.T) {
	var got experiment.MatrixTests
	err := count(strings.NewReader(`{"Action":"pass","Test":"A"}
{"Action":"pass","Test":"A/sub"}
{"Action":"output","Test":"B","Output":"x"}
{"Action":"fail","Test":"B"}
{"Action":"skip","Test":"C"}
{"Action":"fail"}
`), &got)
	if err != nil || got.Passed != 1 || got.Failed != 1 || got.Skipped != 1 || strings.Join(got.Failures, " ") != "B" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := count(strings.NewReader("no JSON"), &got); err == nil {
		t.Error("what is no JSON was taken")
	}
}

// The installed server, unpacked as it were into a tree with its loader and libraries, runs from there.
func TestAWrappedServerRuns(t *testing.T) {
	binary, err := exec.LookPath("redis-server")
	if err != nil || runtime.GOOS != "linux" {
		t.Log("without redis-server on Linux this is not tried")
		return
	}
	if binary, err = filepath.EvalSymlinks(binary); err != nil {
		t.Fatal(err)
	}
	loader, err := loaderOf("/", binary)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree's")
	for link, to := range map[string]string{
		filepath.Join(tree, "usr", "bin", "redis-check-rdb"): binary, filepath.Join(tree, loader): loader,
		filepath.Join(tree, "usr", "lib", "x-linux-gnu"): "/usr/lib",
	} {
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := wrap(dir, tree, "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	s, err := redisd.Start(t.Context(), redisd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID())); err != nil || !strings.Contains(exe, "ld-linux") {
		t.Errorf("it runs as %s: %v", exe, err)
	}
}
