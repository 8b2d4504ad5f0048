import HTTPServer
import JSON

/// The body of a request; it must be one JSON object without repeated members. Each function reads a member as one
/// type, and refuses a member of another type.
///
/// Unknown members of the object are ignored, as on the 10darts platform.
struct RequestObject {
    private var members: [String: JSONValue] = [:]

    private static let bodyLimit = 16 << 10
    private static let depth = 16
    private static let valueLimit = 2000

    init(bodyOf request: HTTPRequest) throws(ServiceProblem) {
        guard request.body.count <= Self.bodyLimit else { throw ServiceProblem(413, "the body is too long") }
        var limits = JSONReader.Limits()
        limits.depth = Self.depth
        limits.values = Self.valueLimit
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(request.body, limits: limits)
        } catch {
            throw ServiceProblem(400, "the body cannot be read as JSON", detail: "\(error)")
        }
        guard case .object(let list) = value else { throw ServiceProblem(400, "expected a JSON object") }
        for member in list {
            guard members.updateValue(member.value, forKey: member.key) == nil else {
                throw ServiceProblem(400, "a member is given twice", detail: String(member.key.prefix(100)))
            }
        }
    }

    /// The value of a member; `nil` if the member is missing or `null`.
    subscript(_ name: String) -> JSONValue? {
        switch members[name] {
        case nil, .null: nil
        case .some(let value): value
        }
    }

    /// Reads a text; the result is empty if the member is missing or `null`.
    func text(_ name: String, atMost limit: Int) throws(ServiceProblem) -> String {
        guard let value = self[name] else { return "" }
        guard let text = value.string else { throw ServiceProblem(400, "expected a text", detail: name) }
        guard text.utf8.count <= limit else {
            throw ServiceProblem(400, "a text is too long", detail: "\(name): \(limit) bytes at most")
        }
        return text
    }

    /// Reads a flag, written as `true`, `false`, 1 or 0; `nil` if the flag is missing or `null`.
    func flag(_ name: String) throws(ServiceProblem) -> Bool? {
        switch self[name] {
        case nil: return nil
        case .bool(let flag): return flag
        case .number("1"): return true
        case .number("0"): return false
        case .null, .number, .string, .array, .object:
            throw ServiceProblem(400, "expected true or false", detail: name)
        }
    }

    func integer(_ name: String, in range: ClosedRange<Int64>) throws(ServiceProblem) -> Int64? {
        guard let value = self[name] else { return nil }
        guard let number = value.integer, range.contains(number) else {
            throw ServiceProblem(
                400, "expected a whole number", detail: "\(name): \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
