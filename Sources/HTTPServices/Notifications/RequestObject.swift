import HTTPServer
import JSON

/// A request's body as one JSON object, whose members are read by what they have to be.
///
/// Members that nobody asks for are passed over, as the services do whose form this is; but no member may come twice.
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
            throw ServiceProblem(400, "the body is no JSON that is taken", detail: "\(error)")
        }
        guard case .object(let list) = value else { throw ServiceProblem(400, "expected a JSON object") }
        for member in list {
            guard members.updateValue(member.value, forKey: member.key) == nil else {
                throw ServiceProblem(400, "a member is given twice", detail: String(member.key.prefix(100)))
            }
        }
    }

    /// `nil` when it is missing or `null`.
    subscript(_ name: String) -> JSONValue? {
        switch members[name] {
        case nil, .null: nil
        case .some(let value): value
        }
    }

    /// - Returns: an empty text when it is missing or `null`.
    func text(_ name: String, atMost limit: Int) throws(ServiceProblem) -> String {
        guard let value = self[name] else { return "" }
        guard let text = value.string else { throw ServiceProblem(400, "expected a text", detail: name) }
        guard text.utf8.count <= limit else {
            throw ServiceProblem(400, "a text is too long", detail: "\(name): \(limit) bytes at most")
        }
        return text
    }

    /// `true`, `false`, 1 or 0.
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
