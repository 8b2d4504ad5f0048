import Bytes
import JSON

/// One member of a payload: a key and its value. The value of a payload member is written as JSON or, for Firebase, as
/// a string.
struct PayloadField {
    enum Value {
        /// A text that is cut to at most the given number of bytes, without breaking a character.
        case text(ByteString, atMost: Int)
        /// A fixed word of a payload format.
        case word(StaticString)
        case number(Int64)
        /// The value of a payload field is an array or object, as JSON text.
        case json([UInt8])
    }

    let name: String
    let value: Value

    init(_ name: String, _ text: ByteString, atMost limit: Int = 1024) {
        self.name = name
        value = .text(text, atMost: limit)
    }

    init(_ name: String, _ text: String) { self.init(name, ByteString(text)) }

    init(_ name: String, word: StaticString) {
        self.name = name
        value = .word(word)
    }

    init(_ name: String, _ number: Int64) {
        self.name = name
        value = .number(number)
    }

    init(_ name: String, json: [UInt8]) {
        self.name = name
        value = .json(json)
    }
}

extension Array<PayloadField> {
    /// The size in bytes of the payload's keys and values together. Texts count with their JSON escapes.
    var size: Int {
        var members: [UInt8] = []
        return append(membersTo: &members)
    }

    /// Appends the fields as the members of a JSON object, without braces.
    ///
    /// - Parameters:
    ///   - body: the JSON text to which the members are appended.
    ///   - asStrings: whether numbers, arrays and objects are written as strings, as Firebase requires.
    /// - Returns: the ``size`` of the members.
    @discardableResult
    func append(membersTo body: inout [UInt8], asStrings: Bool = false) -> Int {
        var size = 0
        for (index, field) in enumerated() {
            if index > 0 { body.append(",") }
            body.append(jsonString: field.name)
            body.append(":")
            let start = body.count
            size += field.name.utf8.count
            switch field.value {
            case .text(let text, let limit):
                body.append(jsonString: text, atMost: limit)
                size += body.count - start - 2
            case .word(let word):
                body.append("\"")
                body.append(word)
                body.append("\"")
                size += word.utf8CodeUnitCount
            case .number(let number):
                if asStrings { body.append("\"") }
                body.append(decimal: number)
                if asStrings { body.append("\"") }
                size += body.count - start - (asStrings ? 2 : 0)
            case .json(let json):
                if asStrings { body.append(jsonString: json.span) } else { body.append(contentsOf: json) }
                size += json.count
            }
        }
        return size
    }
}
