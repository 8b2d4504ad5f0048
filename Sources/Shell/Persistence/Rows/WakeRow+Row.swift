import Bytes
import PushDelivery

extension StoredRow {
    /// The outcome of the push in the current row; `nil` if the push does not count.
    var wakeOutcome: WakeOutcome? {
        WakeOutcome(
            WakeOutcome.Steps(
                registered: step(3), invited: step(4), ended: step(5), showedLife: integer(6) != 0)
        ) { TimelineRecord.End(rawValue: text(7)) }
    }

    private func step(_ column: Int) -> Int64? {
        let value = integer(column)
        return value < 0 ? nil : value
    }

    func holds(_ text: ByteString, in column: Int) -> Bool {
        text.withSpan { text in withBytes(column) { text.hasSameBytes(as: $0) } }
    }

    var storedWakes: WakeRow? {
        let first = 4
        let counts = (first..<(first + WakeTimes.bounds.count + 1)).map { integer($0) }
        guard let times = WakeTimes(counts: counts) else { return nil }
        return WakeRow(
            name: text(0),
            counts: WakeCounts(
                times: times, never: integer(1), callerGaveUp: integer(2), endedOtherwise: integer(3)))
    }
}
