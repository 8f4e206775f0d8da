# The include rule: the sources keep it, and a planted violation of each kind is caught.
. "$(dirname "$0")/lib.sh"
cp -r "$ROOT/src" "$ROOT/include" "$ROOT/app" .
"$ROOT/tools/check-includes" . >out
status=$?
equal "the sources keep the rule: $(cat out)" 0 $status

# planted FILE INCLUDE: adding it must be found, with file and line.
planted() {
    printf '// planted\n#include %s\n' "$2" >"$1"
    "$ROOT/tools/check-includes" . >out
    equal "$1 with $2 is refused" 1 $?
    expect "$1 with $2 is named: $(cat out)" grep -q "^$1:2: " out
    rm "$1"
}
planted src/base/planted.c '"quant/format.h"'
planted src/base/planted.c '<quant/format.h>'
planted src/base/planted.h '"runnel.h"'
planted src/text/planted.c '"weights/weights.h"'
planted src/weights/planted.c '"plan/plan.h"'
planted src/plan/planted.c '"model/model.h"'
planted src/backend/cpu/planted.c '"weights/weights.h"'
planted src/model/planted.c '"backend/backend.h"'
planted src/engine/step/planted.c '"tools.h"'
planted src/engine/step/planted.c '"../base/pool.h"'
planted src/engine/step/planted.c '"missing.h"'
planted src/engine/pages/planted.c '"engine/price/price.h"'
planted src/engine/pages/planted.c '"engine/choice/choice.h"'
planted src/engine/price/planted.c '"engine/pages/kv.h"'
planted src/engine/price/planted.c '"engine/choice/choice.h"'
planted src/engine/choice/planted.c '"engine/pages/kv.h"'
planted src/engine/choice/planted.c '"engine/request/seq.h"'
planted src/engine/request/planted.h '"engine/draft/drafter.h"'
planted src/engine/draft/planted.c '"engine/step/engine.h"'
planted src/engine/step/planted.c '"engine/door/driver.h"'
planted include/planted.h '"base/status.h"'
planted app/planted.c '"base/clock.h"'
planted app/planted.c '"runnel_status.h"'
planted app/planted.c '"plan/plan.h"'
planted app/run/planted.c '"tools.h"'
planted app/server/planted.c '"tools.h"'
planted app/server/planted.c '"terminal/term.h"'
planted app/server/call.c '"generation.h"'
planted app/server/generation.h '"streams.h"'
planted app/server/streams.c '"conn.h"'

# A file of the engine outside its rooms, and a folder that the rule does not know, are refused too.
for file in src/engine/planted.c src/engine/attic/planted.c src/attic/planted.c; do
    mkdir -p "$(dirname "$file")"
    echo '// planted' >"$file"
    "$ROOT/tools/check-includes" . >out
    equal "$file is refused" 1 $?
    expect "$file is named: $(cat out)" grep -q "^$file:1: " out
    rm "$file"
done
finish
