import Bytes
import Crypto
import Foundation

/// The ladder diagrams of played scenarios as one HTML page, which loads no other file.
struct ReplayPage {
    /// The limits of the page's contents; the page omits everything above a limit, and names the limit in a sentence.
    struct Limits {
        /// The number of messages and pushes on the page.
        var events = 4000
        /// The number of bytes of one text.
        var text = 8192
        /// The number of bytes of all texts.
        var texts = 4 << 20
        var differences = 200
        var tokens = 50
    }

    private let played: [PlayedScenario]
    private let limits: Limits

    init(_ played: [PlayedScenario], limits: Limits = Limits()) {
        self.played = played
        self.limits = limits
    }

    var html: String {
        var room = Room(limits: limits)
        var sections: [String] = []
        for (index, scenario) in played.enumerated() {
            sections.append(ScenarioSection(scenario, number: index + 1, &room).html)
        }
        let title = played.count == 1 ? played.first.map { PageMask().label($0.name) } ?? "" : "Call flows"
        let heading = played.count == 1 ? "Call flow" : "Call flows"
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta http-equiv="Content-Security-Policy" content="\(Self.policy)">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <meta name="referrer" content="no-referrer">
            <title>\(HTMLText.escaped(title))</title>
            <style>\(PageStyle.style)</style>
            </head>
            <body>
            <main>
            <h1>\(heading)</h1>
            <p class="state">\(ReplaySummary(played))</p>
            \(LadderPicture.tips)\(contents)\(sections.joined())</main>
            <aside id="panel" aria-live="polite" hidden>
            <header><h2 id="panel-title"></h2>
            <button id="panel-back" aria-label="Message before">↑</button>
            <button id="panel-on" aria-label="Next message">↓</button>
            <button id="panel-close" aria-label="Close">✕</button></header>
            <div id="panel-text"></div>
            </aside>
            <script>\(PageStyle.script)</script>
            </body>
            </html>

            """
    }

    /// The list of scenarios, failed scenarios first; empty for one scenario.
    private var contents: String {
        guard played.count > 1 else { return "" }
        let failed = played.enumerated().filter { $0.element.result == .failed }
        let others = played.enumerated().filter { $0.element.result != .failed }
        let items = (failed + others).map { index, scenario in
            let count = scenario.differences.count
            let note = count == 0 ? "" : count == 1 ? ", 1 difference" : ", \(count) differences"
            return "<li><a href=\"#s\(index + 1)\">\(HTMLText.isolated(scenario.name))</a>: "
                + "\(ScenarioSection.state(scenario.result))\(note)</li>\n"
        }
        return "<ul>\n\(items.joined())</ul>\n"
    }

    /// The content security policy allows only the page's own style and script.
    private static var policy: String {
        "default-src 'none'; style-src '\(hash(PageStyle.style))'; script-src '\(hash(PageStyle.script))'; "
            + "base-uri 'none'; form-action 'none'"
    }

    private static func hash(_ text: String) -> String {
        let digest = HashAlgorithm.sha256.digest(of: Array(text.utf8))
        return "sha256-" + String(decoding: Base64.standard.encode(digest), as: UTF8.self)
    }

    // MARK: The file

    /// Checks, before scenarios are played, that the page can be written.
    static func check(_ file: String) throws(ReplayError) {
        let folder = URL(filePath: file).deletingLastPathComponent().path
        let attributes = try? FileManager.default.attributesOfItem(atPath: file)
        if let type = attributes?[.type] as? FileAttributeType, type != .typeRegular {
            throw ReplayError("--html needs a regular file or a new name, but \(file) is something else")
        }
        if !FileManager.default.isWritableFile(atPath: folder) {
            throw ReplayError("--html cannot write \(file): the folder is missing or not writable")
        }
    }

    func write(to file: String) throws(ReplayError) {
        do {
            try Data(html.utf8).write(to: URL(filePath: file), options: .atomic)
        } catch {
            throw ReplayError("cannot write \(file): \(error.localizedDescription)")
        }
    }

    /// The unused part of the page's limits.
    struct Room {
        let limits: Limits
        var events: Int
        var texts: Int

        init(limits: Limits) {
            self.limits = limits
            events = limits.events
            texts = limits.texts
        }
    }
}
