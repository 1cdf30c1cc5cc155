#!/bin/sh
# A team's gate in CI: save a run, gate it against what is active, promote what is better, roll back when it was not.
# Every command is shown with what it printed and its exit code; the script fails if a code is not the expected one.
#
#   sh examples/ci/ci.sh FOLDER          FOLDER is made, and holds the answers, the store and the reports
#
# STEELYARD and PYTHON name the commands to use (default: steelyard, python3).

set -u
here=$(cd "$(dirname "$0")" && pwd)
work=${1:?name a folder to work in}
STEELYARD=${STEELYARD:-steelyard}
PYTHON=${PYTHON:-python3}
if [ -e "$work/store" ]; then
    echo "$work holds a store already; name another folder" >&2
    exit 1
fi
mkdir -p "$work" && cd "$work" || exit 1
export STEELYARD_ROOT="$PWD/store" STEELYARD_TENANT=- STEELYARD_DOMAIN=evaluation
unset GITHUB_ACTIONS GITHUB_STEP_SUMMARY
wrong=0

expect() { # expect CODE COMMAND...: run it, show what it printed and how it ended
    wanted=$1
    shift
    printf '\n$ steelyard %s\n' "$*"
    "$STEELYARD" "$@"
    code=$?
    echo "exit $code"
    if [ "$code" -ne "$wanted" ]; then
        echo "expected exit $wanted"
        wrong=$((wrong + 1))
    fi
}

say() { printf '\n== %s\n' "$*"; }

keep() { # keep NAME: evaluate the answers of a change and keep the run under its name
    expect 0 evaluate "answers/$1.jsonl" --cluster patient -m accuracy -m answer_rate -m failure_rate \
        -m 'fairness_gap(accuracy, by=group.site)' --resamples 2000 --save --workflow Triage --run-id "$1"
}

"$PYTHON" "$here/make.py" answers || exit 1
cp "$here/gate.yaml" gate.yaml

say 'the release is kept, promoted and pinned (0)'
keep release
expect 0 runs promote release -m accuracy --reason 'first release'
expect 0 runs pin release --as release-1

say 'a no-op change: the same answers pass, and nothing is promoted (0)'
keep rebuild
expect 0 gate --run rebuild --rules gate.yaml --junit rebuild.xml
expect 0 runs decide -m accuracy --apply

say 'a real gain passes and is promoted (0)'
keep gain
expect 0 gate --run gain --rules gate.yaml --baseline pinned:release-1 --summary gain.md
expect 0 runs decide -m accuracy --apply
expect 0 runs active -m accuracy

say 'a real loss fails (1)'
keep loss
expect 1 gate --run loss --rules gate.yaml

say 'a rare loss, four patients of 120, is inconclusive: what to do is said (6)'
keep rare-loss
expect 6 gate --run rare-loss --rules gate.yaml --baseline pinned:release-1
expect 0 gate --run rare-loss --rules gate.yaml --baseline pinned:release-1 --inconclusive warn
expect 1 gate --run rare-loss --rules gate.yaml --baseline pinned:release-1 --inconclusive fail

say 'a group that is missing cannot pass (1)'
keep outage
expect 1 gate --run outage --rules gate.yaml --baseline pinned:release-1

say 'a typo is a usage error, never a failed gate (2); a group that is not there fails it (1)'
expect 2 gate --run gain --rule 'acuracy >= 0.8'
expect 1 gate --run gain --rule 'accuracy{group.site=nroth} >= 0.8'
expect 2 gate --run answers/gain.jsonl --baseline answers/relaese.jsonl --rule 'delta(accuracy) >= 0' --cluster patient
expect 2 gate --run gain --rule 'delta(accuracy) >= 0'
expect 2 gate --run gain --rules gate.yaml --junit report --summary report

say 'a file that was cut off is bad input (3)'
expect 3 gate --run answers/torn.jsonl --rule 'accuracy >= 0.5'

say 'an embedder that cannot be reached gives up (4)'
mkdir -p docs && echo 'Rest, drink and come back if it gets worse.' >docs/rest.txt
echo '{"id": "q1", "text": "what to do", "relevantDocId": "rest"}' >queries.jsonl
export CI_EXAMPLE_KEY=none
expect 4 retrieval run docs queries.jsonl --embedder openai:any --base-url http://127.0.0.1:9/v1 \
    --api-key-env CI_EXAMPLE_KEY --no-save

say 'a run that was edited by hand is refused (5)'
run=store/results/evaluation/runs/Triage/loss/run.json
sed 's/"accuracy": 0\.[0-9]*/"accuracy": 0.999/' "$run" >edited.json && mv edited.json "$run"
expect 5 runs promote loss -m accuracy

say 'back to what was active before, as far as there is something (0, 2)'
expect 0 runs rollback -m accuracy --reason 'complaints from the south'
expect 2 runs rollback -m accuracy

say 'patient data leave the store, but not what is active (0, 2)'
expect 0 runs delete outage --yes
expect 2 runs delete release --yes
expect 0 runs list

say 'stopped from outside (143)'
mkfifo never
( # more than a pipe holds, so that what follows happens only once it is being read
    for _ in 1 2 3 4 5 6; do cat answers/release.jsonl; done
    : >read
    exec sleep 600
) >never &
held=$!
"$STEELYARD" evaluate - <never >stopped.txt 2>&1 &
job=$!
waited=0
while [ ! -e read ] && [ "$waited" -lt 120 ]; do
    sleep 1
    waited=$((waited + 1))
done
kill -TERM "$job"
wait "$job"
code=$?
kill "$held" 2>/dev/null
cat stopped.txt
echo "exit $code"
[ "$code" -eq 143 ] || wrong=$((wrong + 1))

say "codes that were not expected: $wrong"
exit "$((wrong > 0))"
