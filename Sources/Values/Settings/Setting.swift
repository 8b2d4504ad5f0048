/// The key path of the property for a setting's value in a settings group.
package typealias SettingPath<Group, Value> = any WritableKeyPath<Group, Value> & Sendable

/// The declaration of one setting, which is one key of a settings group. The YAML reader, the reload, the sample file
/// and the manual use the same declaration.
///
/// The default is the initial value of the group's property.
package struct Setting<Group: Sendable>: Sendable {
    package let key: String
    /// The purpose of the setting in one or more sentences, with the unit unless the type shows it.
    package let help: String
    /// Whether a settings file without the key is refused.
    package private(set) var isRequired = false
    /// When a change takes effect; `nil` if the setting's group decides.
    private(set) var ownMoment: ChangeMoment?
    /// Whether the setting is read after all other keys of the group, because its value depends on the other keys.
    var isReadLast = false
    let read: @Sendable (YAMLNode, inout Group, inout SettingsProblems) -> Void
    let reload: SettingReload<Group>
    let outline: @Sendable (Group) -> SettingOutline

    init(
        _ key: String, _ help: String, reload: @escaping SettingReload<Group>,
        read: @escaping @Sendable (YAMLNode, inout Group, inout SettingsProblems) -> Void,
        outline: @escaping @Sendable (Group) -> SettingOutline
    ) {
        self.key = key
        self.help = help
        self.reload = reload
        self.read = read
        self.outline = outline
    }

    /// A copy of the setting that every settings file must contain, because the setting has no sensible default.
    package func required() -> Setting {
        var copy = self
        copy.isRequired = true
        return copy
    }

    /// A copy of the setting whose changes take effect at the given moment, for example at SIGHUP. For a group, the
    /// moment applies to each key that names no moment itself.
    package func taken(_ moment: ChangeMoment) -> Setting {
        var copy = self
        copy.ownMoment = moment
        return copy
    }

    // MARK: Any type

    /// Makes a setting whose value has the given type.
    ///
    /// - Parameters:
    ///   - key: the key of the setting, in lower case with hyphens.
    ///   - path: the property for the value; its initial value is the default.
    ///   - type: the type of the setting's values, which decides what is allowed.
    ///   - example: YAML for the sample file instead of an empty default.
    ///   - help: the purpose of the setting.
    /// - Returns: the setting.
    package static func value<Value: Equatable>(
        _ key: String, _ path: SettingPath<Group, Value>, _ type: SettingType<Value>,
        example: String? = nil, _ help: String
    ) -> Setting {
        Setting(key, help, reload: reload(of: path)) { node, group, problems in
            do throws(SettingMismatch) {
                group[keyPath: path] = try type.read(node)
            } catch {
                problems.report("\(key): \(error.message)", at: error.position)
            }
        } outline: { group in
            let text = type.print(group[keyPath: path])
            let isEmpty = text == "[]" || text == "\"\""
            return .value(type: type.name, text: text, example: isEmpty ? example : nil)
        }
    }

    /// Makes a setting whose value is optional; a key without a value means `nil`.
    package static func value<Value: Equatable>(
        _ key: String, _ path: SettingPath<Group, Value?>, _ type: SettingType<Value>,
        example: String? = nil, _ help: String
    ) -> Setting {
        Setting(key, help, reload: reload(of: path)) { node, group, problems in
            guard !node.isNull else {
                group[keyPath: path] = nil
                return
            }
            do throws(SettingMismatch) {
                group[keyPath: path] = try type.read(node)
            } catch {
                problems.report("\(key): \(error.message)", at: error.position)
            }
        } outline: { group in
            .value(type: type.name, text: group[keyPath: path].map(type.print), example: example)
        }
    }
}

// MARK: The common types by name

extension Setting {
    package static func bool(_ key: String, _ path: SettingPath<Group, Bool>, _ help: String) -> Setting {
        value(key, path, .bool, help)
    }

    package static func integer<Value: FixedWidthInteger & Sendable>(
        _ key: String, in range: ClosedRange<Value> = 0...Value.max, _ path: SettingPath<Group, Value>,
        _ help: String
    ) -> Setting {
        value(key, path, .integer(in: range), help)
    }

    package static func duration(
        _ key: String, in range: ClosedRange<Duration>? = nil, _ path: SettingPath<Group, Duration>,
        _ help: String
    ) -> Setting {
        value(key, path, .duration(in: range), help)
    }

    package static func string(
        _ key: String, _ path: SettingPath<Group, String>, _ help: String
    ) -> Setting {
        value(key, path, .string, help)
    }

    package static func string(
        _ key: String, _ path: SettingPath<Group, String?>, example: String? = nil, _ help: String
    ) -> Setting {
        value(key, path, .string, example: example, help)
    }

    package static func path(
        _ key: String, _ path: SettingPath<Group, String>, _ help: String
    ) -> Setting {
        value(key, path, .path, help)
    }

    package static func path(
        _ key: String, _ path: SettingPath<Group, String?>, example: String? = nil, _ help: String
    ) -> Setting {
        value(key, path, .path, example: example, help)
    }

    package static func secret(
        _ key: String, _ path: SettingPath<Group, Secret?>, _ help: String
    ) -> Setting {
        value(key, path, .secret, help)
    }

    package static func choice<Value: RawRepresentable & CaseIterable & Equatable & Sendable>(
        _ key: String, _ path: SettingPath<Group, Value>, _ help: String
    ) -> Setting where Value.RawValue == String {
        value(key, path, .choice, help)
    }

    package static func list(
        _ key: String, _ path: SettingPath<Group, [String]>, example: String? = nil, _ help: String
    ) -> Setting {
        value(key, path, .list(of: .string), example: example, help)
    }

    package static func list<Element: Equatable>(
        _ key: String, of element: SettingType<Element>, _ path: SettingPath<Group, [Element]>,
        example: String? = nil, _ help: String
    ) -> Setting {
        value(key, path, .list(of: element), example: example, help)
    }
}
