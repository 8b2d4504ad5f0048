import JSON

extension JSONValue {
    /// Parses a JSON object; `nil` for other bytes.
    static func object(in bytes: [UInt8]) -> JSONValue? {
        guard let value = try? JSONValue(bytes), value.members != nil else { return nil }
        return value
    }

    var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}
