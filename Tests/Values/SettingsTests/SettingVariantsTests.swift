import Settings
import Testing

private struct Service: SettingsGroup, Equatable {
    var size = 1
    var name: String?
    var variants: [String: Service] = [:]

    static let schema: [Setting<Service>] = [
        .variants("apps", \.variants, atMost: 2, exampleName: "second", exampleKeys: ["size"], "More of them."),
        .integer("size", in: 0...9, \.size, "How much."),
        .string("name", \.name, "Its name."),
    ]

    func complaints() -> [SettingComplaint] {
        size == 7 ? [SettingComplaint("expected anything but 7", key: "size")] : []
    }
}

@Suite struct `Variants of a group` {
    private func read(_ yaml: String) throws(SettingsError) -> Service {
        try Service(yaml: Array(yaml.utf8), file: "f")
    }

    @Test func `begin as the group, at any place`() throws {
        let service = try read("apps:\n  a:\n    name: one\n  b: {size: 3}\nsize: 5\n")
        #expect(service.variants["a"]?.size == 5)
        #expect(service.variants["a"]?.name == "one")
        #expect(service.variants["b"]?.size == 3)
        #expect(service.variants["b"]?.name == nil)
        #expect(service.name == nil)
    }

    @Test func `have no variants of their own`() {
        #expect(throws: SettingsError.self) { try read("apps: {a: {apps: {}}}") }
    }

    @Test func `are checked one by one`() {
        #expect(throws: SettingsError.self) { try read("apps: {a: {size: 7}}") }
        #expect(throws: SettingsError.self) { try read("apps: {a: {}, b: {}, c: {}}") }
        #expect(throws: SettingsError.self) { try read("apps: [a]") }
    }

    @Test func `appear in the sample with some keys`() {
        let sample = Service.sample(title: "T")
        #expect(sample.contains("#apps:"))
        #expect(sample.contains("#second:"))
        #expect(sample.components(separatedBy: "# How much.").count == 3)
        #expect(sample.components(separatedBy: "# Its name.").count == 2)
    }
}

extension String {
    fileprivate func components(separatedBy text: String) -> [Substring] {
        var parts: [Substring] = []
        var rest = self[...]
        while let range = rest.firstRange(of: text) {
            parts.append(rest[..<range.lowerBound])
            rest = rest[range.upperBound...]
        }
        return parts + [rest]
    }
}
