/// The style and the script, which are the same on each page.
enum PageStyle {
    static let style =
        """
        :root{color-scheme:light dark;--back:#fff;--ink:#1c1f23;--soft:#5d6670;--line:#c5ccd3;--box:#f3f5f7;\
        --arrow:#2f5fa8;--push:#8a4b00;--bad:#b3261e;--badback:#fdecea;--good:#1b6e3c}
        @media(prefers-color-scheme:dark){:root{--back:#14171a;--ink:#e4e8eb;--soft:#9aa5af;--line:#3b444c;\
        --box:#1e2327;--arrow:#86b3f5;--push:#f0ad5e;--bad:#ff8a80;--badback:#3a1d1b;--good:#7fd6a0}}
        *{box-sizing:border-box}
        body{margin:0;padding:1rem;background:var(--back);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;\
        overflow-wrap:anywhere}
        main{max-width:80rem;margin:0 auto}
        h1,h2,h3{line-height:1.25}h1{font-size:1.5rem;margin:0}h2{margin:2.5rem 0 .25rem;font-size:1.25rem}h3{font-size:1rem}
        a{color:var(--arrow)}p{margin:.5rem 0}.soft{color:var(--soft)}
        .state{font-weight:700}.passed{color:var(--good)}.failed{color:var(--bad)}
        .differences{list-style:none;padding:0;margin:0}
        .differences>li{margin:.5rem 0;padding:.5rem .75rem;border-left:4px solid var(--bad);background:var(--badback)}
        dl{margin:.25rem 0;display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dt{color:var(--soft)}
        dd{margin:0;white-space:pre-wrap}
        .scroll{overflow-x:auto;margin:1rem 0}
        .heads{display:grid;grid-auto-flow:column;grid-auto-columns:minmax(0,1fr);font-weight:700;text-align:center;\
        position:sticky;top:0;background:var(--back);padding:.25rem 0;border-bottom:1px solid var(--line);z-index:1}
        .heads span{padding:0 .25rem}
        svg{display:block}svg.tips{position:absolute}
        svg text{font:12px ui-monospace,monospace;fill:var(--ink);text-anchor:middle;unicode-bidi:isolate;\
        paint-order:stroke;stroke:var(--back);stroke-width:4px;stroke-linejoin:round}
        svg text.ms{fill:var(--soft);text-anchor:start;font-size:11px}
        svg text.after{text-anchor:start}svg text.before{text-anchor:end}
        svg line{stroke:var(--arrow);stroke-width:1.5}svg circle{fill:var(--soft)}
        svg line.column{stroke:var(--line);stroke-width:1}
        .push line{stroke:var(--push);stroke-dasharray:6 3}.different line{stroke:var(--bad);stroke-width:2.5}
        .different text.ms{fill:var(--bad);font-weight:700}.different circle{fill:var(--bad)}
        .tip{fill:var(--arrow)}.tip-push{fill:var(--push)}.tip-different{fill:var(--bad)}
        rect.row{fill:transparent}.different rect.row{fill:var(--badback)}
        a[href].message{cursor:pointer}a[href].message:hover rect.row,.message.now rect.row{fill:var(--box)}
        .message:target rect.row,.message:focus-visible rect.row{stroke:var(--arrow);stroke-width:2}
        .message:focus{outline:none}
        pre{margin:.25rem 0;padding:.5rem .75rem;background:var(--box);overflow:auto;font:.8125rem/1.5 ui-monospace,monospace}
        details{margin:.25rem 0}summary{cursor:pointer}summary:focus-visible,button:focus-visible{outline:2px solid var(--arrow)}
        details details{margin-left:1rem}:target{scroll-margin-top:3rem}
        #panel{position:fixed;inset:auto 0 0;height:50vh;display:flex;flex-direction:column;padding:.5rem 1rem;\
        background:var(--back);border-top:2px solid var(--arrow);z-index:2}
        #panel[hidden]{display:none}#panel header{display:flex;gap:.5rem;align-items:center}
        #panel h2{flex:1;margin:0;font-size:1rem}#panel-text{flex:1;overflow:auto}
        button{font:inherit;min-width:2.5rem;min-height:2.5rem;color:inherit;background:var(--box);\
        border:1px solid var(--line);border-radius:4px}
        body.open{padding-bottom:52vh}html:has(body.open){scroll-padding-bottom:52vh}
        @media(max-width:40rem){pre{white-space:pre-wrap}}
        @media(min-width:64rem){.scroll{overflow-x:visible}body.open .scroll{overflow-x:auto}\
        html:has(body.open){scroll-padding-bottom:0}#panel{inset:0 0 0 auto;width:40vw;height:auto;border-top:0;border-left:2px solid var(--arrow)}\
        body.open{padding:1rem 42vw 1rem 1rem}}

        """
        + (1...LadderPicture.largest).map { ".c\($0){min-width:\($0 * 120)px}" }.joined(separator: "\n")

    /// The script shows the text of a message in a panel. Without the script, a message's link opens the text below the
    /// ladder diagram.
    static let script = """
        "use strict";
        const panel = document.getElementById("panel");
        const title = document.getElementById("panel-title");
        const body = document.getElementById("panel-text");
        const messages = Array.from(document.querySelectorAll("a.message[href]"));
        let current = null;
        function show(message) {
          const text = document.getElementById(message.getAttribute("href").slice(1));
          if (!text) return;
          if (current) current.classList.remove("now");
          current = message;
          current.classList.add("now");
          title.textContent = message.getAttribute("aria-label");
          body.replaceChildren(...Array.from(text.childNodes, (node) => node.cloneNode(true)));
          panel.hidden = false;
          document.body.classList.add("open");
          body.scrollTop = 0;
          message.scrollIntoView({block: "nearest"});
        }
        function hide() {
          panel.hidden = true;
          document.body.classList.remove("open");
          if (!current) return;
          current.classList.remove("now");
          current.focus();
        }
        function step(from, by) {
          const next = messages[messages.indexOf(from) + by];
          if (!next) return;
          next.focus();
          if (!panel.hidden) show(next);
        }
        document.addEventListener("click", (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          const link = event.target.closest("a[href]");
          if (!link) return;
          const message = document.getElementById(link.getAttribute("href").slice(1));
          if (link.matches("a.message")) show(link);
          else if (message && message.matches("a.message[href]")) { message.focus(); show(message); }
          else return;
          event.preventDefault();
        });
        document.addEventListener("keydown", (event) => {
          if (event.key === "Escape" && !panel.hidden) { hide(); return; }
          const message = event.target.closest("a.message[href]");
          if (!message) return;
          if (event.key === " " || event.key === "Enter") show(message);
          else if (event.key === "ArrowDown") step(message, 1);
          else if (event.key === "ArrowUp") step(message, -1);
          else return;
          event.preventDefault();
        });
        document.getElementById("panel-close").addEventListener("click", hide);
        document.getElementById("panel-back").addEventListener("click", () => step(current, -1));
        document.getElementById("panel-on").addEventListener("click", () => step(current, 1));
        """
}
