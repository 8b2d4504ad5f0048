/// Draws the ladder diagram of a scenario as SVG. Each message is a link to its text.
///
/// Horizontal positions are percentages, so that the picture fits each screen with letters of the same size.
struct LadderPicture {
    /// A message of the picture.
    struct Row {
        let milliseconds: String
        let from: Int
        /// The column of the receiver; `nil` for an event of one participant.
        let to: Int?
        let label: String
        /// The sentence that screen readers read.
        let name: String
        let isPush: Bool
        let isDifferent: Bool
        /// Whether the message has a text.
        let hasText: Bool
    }

    /// The scenario's number on the page.
    let number: Int
    let columns: [String]
    let rows: [Row]

    private static let rowHeight = 32

    var html: String {
        let height = rows.count * Self.rowHeight + 12
        let size = "c\(min(max(columns.count, 1), Self.largest))"
        var out = ["<div class=\"scroll\"><div class=\"ladder \(size)\">\n<div class=\"heads\">"]
        out += columns.map { "<span>\(HTMLText.isolated(HTMLText.label($0, 40)))</span>" }
        out.append("</div>\n<svg width=\"100%\" height=\"\(height)\" role=\"group\" aria-label=\"Messages\">\n")
        for column in columns.indices {
            out.append("<line class=\"column\" x1=\"\(x(column))\" x2=\"\(x(column))\" y1=\"0\" y2=\"\(height)\"/>\n")
        }
        for (index, row) in rows.enumerated() { out.append(html(row, index)) }
        out.append("</svg></div></div>\n")
        return out.joined()
    }

    private func html(_ row: Row, _ index: Int) -> String {
        let top = index * Self.rowHeight
        let (label, y) = (HTMLText.escaped(HTMLText.label(row.label, 34)), top + 14)
        let kind = (row.isPush ? " push" : "") + (row.isDifferent ? " different" : "")
        var out = "<a class=\"message\(kind)\" id=\"m\(number)-\(index)\""
        if row.hasText { out += " href=\"#t\(number)-\(index)\"" }
        out += " aria-label=\"\(HTMLText.escaped(row.name))\">"
        out += "<rect class=\"row\" y=\"\(top)\" width=\"100%\" height=\"\(Self.rowHeight)\"/>"
        out += "<text class=\"ms\" x=\"4\" y=\"\(y)\">\(row.isDifferent ? "≠ " : "")\(row.milliseconds)</text>"
        let line = top + 22
        guard let to = row.to else {
            let isRight = (row.from + 1) * 2 > columns.count && row.from > 0
            out += "<circle cx=\"\(x(row.from))\" cy=\"\(line)\" r=\"4\"/>"
            out += "<text class=\"\(isRight ? "before" : "after")\" x=\"\(x(row.from))\" y=\"\(y)\">\(label)</text>"
            return out + "</a>\n"
        }
        let middle = percent(row.from + to + 1)
        out += "<text x=\"\(middle)\" y=\"\(y)\">\(label)</text>"
        let tip = row.isDifferent ? "tip-different" : row.isPush ? "tip-push" : "tip"
        out += "<line x1=\"\(x(row.from))\" x2=\"\(x(to))\" y1=\"\(line)\" y2=\"\(line)\""
        return out + " marker-end=\"url(#\(tip))\"/></a>\n"
    }

    private func x(_ column: Int) -> String { percent(2 * column + 1) }

    /// Converts a horizontal position, counted in halves of a column, to a percentage of the picture's width.
    private func percent(_ halves: Int) -> String { "\(Double(halves * 100) / Double(2 * max(columns.count, 1)))%" }

    /// The largest number of columns for which the style sheet has a width.
    static let largest = 12

    /// The arrow heads for all pictures of the page.
    static let tips =
        "<svg class=\"tips\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>"
        + ["tip", "tip-push", "tip-different"].map { id in
            "<marker id=\"\(id)\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\""
                + " orient=\"auto\"><path class=\"\(id)\" d=\"M0 0L8 4L0 8z\"/></marker>"
        }.joined() + "</defs></svg>\n"
}
