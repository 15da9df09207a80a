# The two arms of Table 6: distil the big model into a small one, or do RL on the small one.


use rule cold_start as distill with:
    input:
        **inputs("distill"),
    output:
        directory(f"{RUN.folder('distill')}/model"),
        outputs("distill"),
        manifest=edge("distill"),
    log:
        f"logs/{RUN.name}/distill.log",
    benchmark:
        f"logs/{RUN.name}/distill.tsv"
    threads: RUN.slice("distill")["threads"]
    resources:
        gpu=gpus("distill"),
    params:
        **facts("distill"),


use rule zero_rl as student_rl with:
    input:
        **inputs("student_rl"),
    output:
        directory(f"{RUN.folder('student_rl')}/model"),
        outputs("student_rl"),
        manifest=edge("student_rl"),
    log:
        f"logs/{RUN.name}/student_rl.log",
    benchmark:
        f"logs/{RUN.name}/student_rl.tsv"
    threads: RUN.slice("student_rl")["threads"]
    resources:
        gpu=gpus("student_rl"),
    params:
        **facts("student_rl"),
