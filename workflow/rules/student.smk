# The two arms of Table 6: distil the big model into a small one, or do RL on the small one.


use rule cold_start as distill with:
    input:
        config=RUN.frozen("distill"),
        data=edge("rejection"),
        start=start("distill"),
    output:
        directory(f"{RUN.folder('distill')}/model"),
        outputs("distill"),
    log:
        f"logs/{RUN.name}/distill.log",
    benchmark:
        f"logs/{RUN.name}/distill.tsv"
    threads: RUN.slice("distill")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("distill"),
        data=RUN.folder("rejection"),
        model=model("distill"),


use rule zero_rl as student_rl with:
    input:
        config=RUN.frozen("student_rl"),
        data=edge("data"),
        start=start("student_rl"),
    output:
        directory(f"{RUN.folder('student_rl')}/model"),
        outputs("student_rl"),
    log:
        f"logs/{RUN.name}/student_rl.log",
    benchmark:
        f"logs/{RUN.name}/student_rl.tsv"
    threads: RUN.slice("student_rl")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("student_rl"),
        data=RUN.folder("data"),
        model=model("student_rl"),
