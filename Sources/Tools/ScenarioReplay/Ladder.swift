/// Draws a ladder diagram of the messages between the participants of a scenario, one line for each event.
package struct Ladder: Sendable {
    package struct Event: Hashable, Sendable {
        /// The time of the event in milliseconds since 1970.
        package let time: Double
        package let from: String
        /// The receiver; `nil` for an event that concerns only `from`.
        package let to: String?
        package let label: String

        package init(time: Double, from: String, to: String?, label: String) {
            self.time = time
            self.from = from
            self.to = to
            self.label = label
        }
    }

    package let columns: [String]
    /// The width of each column of the diagram in characters.
    package let width: Int

    package init(columns: [String], width: Int = 27) {
        self.columns = columns
        self.width = width
    }

    /// Draws the events in the order of their times. Times in the diagram are relative to the first event.
    ///
    /// - Parameter events: the events; an event is omitted if one of its participants has no column.
    /// - Returns: the lines of the diagram, without trailing spaces.
    package func draw(_ events: [Event]) -> [String] {
        let sorted = Self.inOrder(events, \.time)
        let start = sorted.first?.time ?? 0
        return [heading()] + sorted.compactMap { row($0, since: start) }
    }

    /// Sorts events by their times; events of the same time keep their order.
    static func inOrder<Event>(_ events: [Event], _ time: (Event) -> Double) -> [Event] {
        events.enumerated()
            .sorted { (time($0.element), $0.offset) < (time($1.element), $1.offset) }
            .map(\.element)
    }

    private func heading() -> String {
        trimmed(padded("ms", to: 7, atStart: true) + "  " + columns.map { padded($0, to: width) }.joined())
    }

    private func row(_ event: Event, since start: Double) -> String? {
        guard let from = columns.firstIndex(of: event.from) else { return nil }
        var cells = Array(repeating: Character(" "), count: columns.count * width + event.label.count + 2)
        for index in columns.indices { cells[index * width] = "│" }
        if let target = event.to {
            guard let to = columns.firstIndex(of: target), to != from else { return nil }
            let left = min(from, to) * width
            let right = max(from, to) * width
            for index in (left + 1)..<right { cells[index] = "─" }
            cells[to > from ? right - 1 : left + 1] = to > from ? "▶" : "◀"
            // The label is next to the sender's column, and is shortened if it is too long.
            let room = right - left - 5
            let text = event.label.count > room ? event.label.prefix(room - 1) + "…" : event.label[...]
            let label = " " + text + " "
            write(label, into: &cells, at: to > from ? left + 2 : right - 1 - label.count)
        } else {
            write("● " + event.label, into: &cells, at: from * width)
        }
        let time = String(Int((event.time - start).rounded()))
        return trimmed(padded(time, to: 7, atStart: true) + "  " + String(cells))
    }

    private func write(_ text: some StringProtocol, into cells: inout [Character], at place: Int) {
        for (index, character) in zip(place..., text) where cells.indices.contains(index) { cells[index] = character }
    }

    private func padded(_ text: String, to length: Int, atStart: Bool = false) -> String {
        let padding = String(repeating: " ", count: max(length - text.count, atStart ? 0 : 1))
        return atStart ? padding + text : text + padding
    }

    private func trimmed(_ line: String) -> String {
        String(line.reversed().drop { $0 == " " }.reversed())
    }
}
