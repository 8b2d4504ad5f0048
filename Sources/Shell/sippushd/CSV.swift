import Bytes

/// Reads and writes lines of CSV: fields between commas. A field with a comma or a quote is in quotes (RFC 4180), and
/// no field contains a line end.
enum CSV {
    enum Fault: Error, Hashable {
        case openQuote
        case textAfterQuote
        case quoteInField

        var sentence: String {
            switch self {
            case .openQuote: "a quote is not closed on this line"
            case .textAfterQuote: "expected a comma after a closing quote"
            case .quoteInField: "a quote inside a field: write the field in quotes, and the quote twice"
            }
        }
    }

    /// Splits a CSV line into its fields, without the line end.
    static func fields(of line: [UInt8]) throws(Fault) -> [[UInt8]] {
        var fields: [[UInt8]] = []
        var rest = line[...]
        while true {
            fields.append(try nextField(&rest))
            guard rest.popFirst() != nil else { return fields }
        }
    }

    /// Reads one field, up to the next comma or the end of the line.
    private static func nextField(_ rest: inout ArraySlice<UInt8>) throws(Fault) -> [UInt8] {
        var field: [UInt8] = []
        guard rest.first == quote else {
            while let byte = rest.first, byte != comma {
                guard byte != quote else { throw .quoteInField }
                field.append(byte)
                _ = rest.popFirst()
            }
            return field
        }
        _ = rest.popFirst()
        while let byte = rest.popFirst() {
            guard byte == quote else {
                field.append(byte)
                continue
            }
            guard rest.first == quote else {
                guard rest.first == nil || rest.first == comma else { throw .textAfterQuote }
                return field
            }
            _ = rest.popFirst()
            field.append(quote)
        }
        throw .openQuote
    }

    /// Writes the fields as one line of CSV, with a line end.
    static func line(of fields: [String]) -> String {
        fields.map { field in
            guard field.utf8.contains(where: { $0 == quote || $0 == comma || $0 < 0x20 }) else { return field }
            return "\"" + field.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
                + "\""
        }.joined(separator: ",") + "\n"
    }

    private static let quote = UInt8(ascii: "\"")
    private static let comma = UInt8(ascii: ",")
}

/// Finds and changes texts that a spreadsheet would run as formulas when it opens a CSV file.
enum SpreadsheetFormula {
    /// Whether a spreadsheet would run the text as a formula. A number with its sign, such as a telephone number, is no
    /// formula.
    static func isFormula(_ text: String) -> Bool {
        switch text.utf8.first {
        case UInt8(ascii: "="), UInt8(ascii: "@"), UInt8(ascii: "\t"), UInt8(ascii: "\r"): true
        case UInt8(ascii: "+"), UInt8(ascii: "-"):
            !text.utf8.dropFirst().allSatisfy(\.isASCIIDigit) || text.utf8.count == 1
        default: false
        }
    }

    /// The text with an apostrophe in front, if a spreadsheet would change or run it.
    static func neutralised(_ text: String) -> String { beginsWithSign(text) ? "'" + text : text }

    /// The original of a text that ``neutralised(_:)`` has changed.
    static func restored(_ text: String) -> String {
        text.hasPrefix("'") && beginsWithSign(text) ? String(text.dropFirst()) : text
    }

    /// Whether the text begins with a sign, or with apostrophes and then a sign. Leading apostrophes count too, so that
    /// ``restored(_:)`` returns each original text.
    private static func beginsWithSign(_ text: String) -> Bool {
        guard let first = text.utf8.first(where: { $0 != UInt8(ascii: "'") }) else { return false }
        return "=+-@\t\r".utf8.contains(first)
    }
}
