/// A struct whose properties are settings; each module declares groups for its own settings.
///
/// The initialiser `init()` sets all settings to their defaults. The schema lists the keys in the order of the sample
/// and the manual.
package protocol SettingsGroup: Sendable {
    init()
    static var schema: [Setting<Self>] { get }
    /// Finds errors in combinations of keys whose single values are valid. ``complaints()`` is called after all keys of
    /// the group were read.
    func complaints() -> [SettingComplaint]
}

extension SettingsGroup {
    package func complaints() -> [SettingComplaint] { [] }
}

// MARK: Reading

extension SettingsGroup {
    /// Creates the group from a whole YAML document; an empty document gives the defaults.
    ///
    /// - Parameters:
    ///   - yaml: the bytes of the document.
    ///   - file: the file name for problems.
    /// - Throws: all problems of the settings file.
    package init(yaml: [UInt8], file: String) throws(SettingsError) {
        try self.init(node: YAMLNode.read(yaml, file: file), file: file)
    }

    /// Reads the group from one node of a YAML document.
    package init(node: YAMLNode, file: String) throws(SettingsError) {
        var problems = SettingsProblems(file: file)
        self.init(reading: node, at: node.position, &problems)
        try problems.throwIfAny()
    }

    /// Creates the group from the file at `path`.
    package init(contentsOf path: String) throws(SettingsError) {
        try self.init(yaml: SettingsFile.bytes(at: path, limit: YAMLLimits().bytes), file: path)
    }

    /// Reads the keys of the group from a YAML node. A missing key gets its value in `origin`, which is usually the
    /// default. The key `excluded` is treated as unknown.
    init(
        reading node: YAMLNode, at position: YAMLPosition, from origin: Self = Self(), without excluded: String? = nil,
        _ problems: inout SettingsProblems
    ) {
        self = origin
        guard let entries = node.entries else {
            problems.report("expected a group of keys, found \(node.found)", at: node.position)
            return
        }
        let before = problems.found.count
        let schema = Self.schema.filter { $0.key != excluded }
        var last: [(setting: Setting<Self>, node: YAMLNode)] = []
        for entry in entries {
            guard let setting = schema.first(where: { $0.key == entry.key }) else {
                problems.report(Self.unknownKey(entry.key, schema), at: entry.keyPosition)
                continue
            }
            if setting.isReadLast {
                last.append((setting, entry.value))
            } else {
                setting.read(entry.value, &self, &problems)
            }
        }
        for (setting, node) in last { setting.read(node, &self, &problems) }
        for setting in schema where setting.isRequired && !entries.contains(where: { $0.key == setting.key }) {
            problems.report("missing key \"\(setting.key)\"", at: position)
        }
        guard problems.found.count == before else { return }
        for complaint in complaints() {
            let place = entries.first { $0.key == complaint.key }?.keyPosition ?? position
            problems.report(complaint.key.map { "\($0): \(complaint.sentence)" } ?? complaint.sentence, at: place)
        }
    }

    private static func unknownKey(_ key: String, _ schema: [Setting<Self>]) -> String {
        "unknown key \(YAMLText.shownInError(key))" + EditDistance.hint(for: key, among: schema.map(\.key))
    }
}

// MARK: Groups inside groups

extension Setting {
    /// A setting that is itself a group of settings.
    package static func group<Inner: SettingsGroup>(
        _ key: String, _ path: SettingPath<Group, Inner>, _ help: String
    ) -> Setting {
        Setting(key, help) { wished, group, moment in
            group[keyPath: path].reload(from: wished[keyPath: path], moment).map { ".\($0)" }
        } read: { node, group, problems in
            group[keyPath: path] = Inner(reading: node, at: node.position, &problems)
        } outline: { group in
            .group(group[keyPath: path].outline)
        }
    }

    /// A setting of several groups, under names that the operator chooses. Named groups in the settings file replace
    /// the default groups.
    ///
    /// - Parameters:
    ///   - key: the key of the groups, in lower case with hyphens.
    ///   - path: the property for the groups; its initial value is the default.
    ///   - limit: the maximum number of groups.
    ///   - exampleName: the group's name in the sample file, if no groups exist by default.
    ///   - example: the group under `exampleName` in the sample file.
    ///   - help: the purpose of the groups.
    /// - Returns: the setting.
    package static func named<Inner: SettingsGroup & Equatable>(
        _ key: String, _ path: SettingPath<Group, [String: Inner]>, atMost limit: Int = 100,
        exampleName: String, example: Inner = Inner(), _ help: String
    ) -> Setting {
        Setting(key, help, reload: reload(ofEach: path)) { node, group, problems in
            guard let entries = node.namedGroups(of: key, atMost: limit, &problems) else { return }
            var named: [String: Inner] = [:]
            for entry in entries {
                named[entry.key] = Inner(reading: entry.value, at: entry.keyPosition, &problems)
            }
            group[keyPath: path] = named
        } outline: { group in
            let sorted = group[keyPath: path].sorted { $0.key < $1.key }
            return .named(
                sorted.map { SettingOutline.Named(name: $0.key, lines: $0.value.outline) },
                example: SettingOutline.Named(name: exampleName, lines: example.outline))
        }
    }
}

extension YAMLNode {
    /// Returns the named groups in a YAML node. If the node is no mapping or has too many groups, the function reports
    /// an error and returns `nil`.
    func namedGroups(of key: String, atMost limit: Int, _ problems: inout SettingsProblems) -> [YAMLEntry]? {
        guard let entries else {
            problems.report("\(key): expected named groups, found \(found)", at: position)
            return nil
        }
        guard entries.count <= limit else {
            problems.report("\(key): expected at most \(limit) groups, found \(entries.count)", at: position)
            return nil
        }
        return entries
    }
}
