import Bytes
import JSON

/// The body of an app's report about a push: `{"device":"/api/v1/devices/CODE/"}`.
struct MarkBody {
    /// The device's code as the app sent it, not yet verified.
    let deviceCode: Substring

    private static let path = "/api/v1/devices/"

    init(_ body: [UInt8]) throws(ServiceProblem) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(body)
        } catch {
            throw ServiceProblem(400, "the body cannot be read as JSON", detail: "\(error)")
        }
        guard case .object(let members) = value else { throw ServiceProblem(400, "expected a JSON object") }
        let devices = members.filter { $0.key == "device" }
        guard devices.count == 1, let text = devices[0].value.string else {
            throw ServiceProblem(400, "expected device once, as a text")
        }
        guard let code = Self.code(in: text) else {
            throw ServiceProblem(400, "device is not a device", detail: "expected /api/v1/devices/CODE/")
        }
        deviceCode = code
    }

    /// Reads the code from a relative or absolute URI with any host, or from a text that is only the code; `nil` for
    /// any other text.
    static func code(in text: String) -> Substring? {
        var rest = text[...]
        for scheme in ["https://", "http://"] where rest.lowercased().hasPrefix(scheme) {
            guard let slash = rest.dropFirst(scheme.count).firstIndex(of: "/"),
                slash > rest.index(rest.startIndex, offsetBy: scheme.count)
            else { return nil }
            rest = rest[slash...]
        }
        if rest.hasPrefix(path) {
            rest = rest.dropFirst(path.count)
            if rest.hasSuffix("/") { rest = rest.dropLast() }
        }
        return rest.utf8.allSatisfy(\.isNameByte) && (1...128).contains(rest.utf8.count) ? rest : nil
    }
}
