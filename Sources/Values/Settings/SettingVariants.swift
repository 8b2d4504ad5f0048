extension Setting where Group: SettingsGroup & Equatable {
    /// A setting with variants of its group, under names that the operator chooses. A variant begins as a copy of the
    /// group, so that the operator sets only the keys with other values.
    ///
    /// Variants are read after all other keys of the group, at any place in the file. A variant has no variants of its
    /// own.
    ///
    /// - Parameters:
    ///   - key: the key of the variants, in lower case with hyphens.
    ///   - path: the property for the variants; empty by default.
    ///   - limit: the maximum number of variants.
    ///   - exampleName: the variant's name in the sample file.
    ///   - exampleKeys: the keys under `exampleName` in the sample file.
    ///   - help: the purpose of the variants.
    /// - Returns: the setting.
    package static func variants(
        _ key: String, _ path: SettingPath<Group, [String: Group]>, atMost limit: Int = 100,
        exampleName: String, exampleKeys: [String], _ help: String
    ) -> Setting {
        var setting = Setting(key, help, reload: reload(ofEach: path)) { node, group, problems in
            guard let entries = node.namedGroups(of: key, atMost: limit, &problems) else { return }
            var origin = group
            origin[keyPath: path] = [:]
            var variants: [String: Group] = [:]
            for entry in entries {
                variants[entry.key] = Group(
                    reading: entry.value, at: entry.keyPosition, from: origin, without: key, &problems)
            }
            group[keyPath: path] = variants
        } outline: { group in
            func lines(_ variant: Group, _ isShown: (String) -> Bool) -> [SettingLine] {
                Group.schema.filter { $0.key != key && isShown($0.key) }.map { setting in
                    SettingLine(
                        key: setting.key, help: setting.help, isRequired: false, moment: setting.ownMoment,
                        outline: setting.outline(variant))
                }
            }
            let sorted = group[keyPath: path].sorted { $0.key < $1.key }
            return .named(
                sorted.map { variant in
                    SettingOutline.Named(name: variant.key, lines: lines(variant.value) { _ in true })
                },
                example: SettingOutline.Named(name: exampleName, lines: lines(Group(), exampleKeys.contains)))
        }
        setting.isReadLast = true
        return setting
    }
}
