import Bytes
import JSON

/// One key of a payload with its value, which is later written as JSON or, for Firebase, as a string.
struct PayloadField {
    enum Value {
        /// A text, which is cut between two characters if it is longer than so many bytes.
        case text(ByteString, atMost: Int)
        case number(Int64)
        /// JSON text of an array or object.
        case json([UInt8])
    }

    let name: String
    let value: Value

    init(_ name: String, _ text: ByteString, atMost limit: Int = 1024) {
        self.name = name
        value = .text(text, atMost: limit)
    }

    init(_ name: String, _ text: String) { self.init(name, ByteString(text)) }

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
    /// How many bytes all keys and values have. Texts are counted as they are after escaping.
    var size: Int {
        reduce(0) { size, field in
            switch field.value {
            case .text(let text, let limit):
                var escaped: [UInt8] = []
                escaped.append(jsonString: text, atMost: limit)
                return size + field.name.utf8.count + escaped.count - 2
            case .number(let number): return size + field.name.utf8.count + String(number).utf8.count
            case .json(let bytes): return size + field.name.utf8.count + bytes.count
            }
        }
    }

    /// Members of a JSON object, without its braces.
    func append(membersTo body: inout [UInt8]) {
        write(to: &body) { value, body in
            switch value {
            case .text(let text, let limit): body.append(jsonString: text, atMost: limit)
            case .number(let number): body.append(decimal: number)
            case .json(let json): body.append(contentsOf: json)
            }
        }
    }

    /// Members of a JSON object with all values as strings, as Firebase wants them.
    func append(stringMembersTo body: inout [UInt8]) {
        write(to: &body) { value, body in
            switch value {
            case .text(let text, let limit): body.append(jsonString: text, atMost: limit)
            case .number(let number):
                body.append("\"")
                body.append(decimal: number)
                body.append("\"")
            case .json(let json): body.append(jsonString: json.span)
            }
        }
    }

    private func write(to body: inout [UInt8], _ writeValue: (PayloadField.Value, inout [UInt8]) -> Void) {
        for (index, field) in enumerated() {
            if index > 0 { body.append(",") }
            body.append(jsonString: field.name)
            body.append(":")
            writeValue(field.value, &body)
        }
    }
}
