import Telemetry
import Testing

@testable import ProxyDaemon

@Suite("The log's format")
struct LogFormatTests {
    @Test func `auto is journal where journald reads, and text elsewhere`() {
        #expect(LogSettings().format == .auto)
        #expect(LogFormatChoice.auto.format(isJournal: true) == .journal)
        #expect(LogFormatChoice.auto.format(isJournal: false) == .text)
        for isJournal in [true, false] {
            #expect(LogFormatChoice.text.format(isJournal: isJournal) == .text)
            #expect(LogFormatChoice.json.format(isJournal: isJournal) == .json)
            #expect(LogFormatChoice.journal.format(isJournal: isJournal) == .journal)
        }
    }
}
