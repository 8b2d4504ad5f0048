import Bytes

/// The member names read so far, in all objects that have not ended.
///
/// Duplicate names are refused, because one program might use the first value and another the last. Names are compared
/// after their escapes are decoded, as Swift compares texts.
struct JSONNames {
    private struct Name {
        let depth: Int
        let text: JSONReader.Text
        /// Whether the name is ASCII text without escapes.
        let isPlain: Bool
    }

    /// The member names of all open objects, the innermost object's last.
    private var names: [Name] = []
    /// The names in each object with more than ``few`` members, by the object's depth.
    private var many: [Int: Set<String>] = [:]

    /// The number of names up to which each new name is compared with all others; more names are put into a set.
    private static let few = 16

    /// Adds the name of a member to the object at the given depth.
    ///
    /// - Returns: false if the object already has the name.
    mutating func add(_ text: JSONReader.Text, at depth: Int, in bytes: [UInt8]) -> Bool {
        if many[depth] != nil { return many[depth]?.insert(JSONReader.string(text, in: bytes)).inserted == true }
        let isPlain = !text.hasEscapes && bytes[text.range].allSatisfy { $0 < 0x80 }
        var index = names.count
        while index > 0, names[index - 1].depth == depth {
            index -= 1
            guard !isSame(names[index], text, isPlain, in: bytes) else { return false }
        }
        if names.capacity == 0 { names.reserveCapacity(Self.few / 2) }
        names.append(Name(depth: depth, text: text, isPlain: isPlain))
        if names.count - index > Self.few {
            many[depth] = Set(names[index...].map { JSONReader.string($0.text, in: bytes) })
        }
        return true
    }

    private func isSame(_ name: Name, _ text: JSONReader.Text, _ isPlain: Bool, in bytes: [UInt8]) -> Bool {
        guard name.isPlain, isPlain else {
            return JSONReader.string(name.text, in: bytes) == JSONReader.string(text, in: bytes)
        }
        let span = bytes.span
        return span.extracting(name.text.range).hasSameBytes(as: span.extracting(text.range))
    }

    /// Removes the names of the object that has ended.
    mutating func end(at depth: Int) {
        if !many.isEmpty { many[depth] = nil }
        while let last = names.last, last.depth == depth { names.removeLast() }
    }
}
