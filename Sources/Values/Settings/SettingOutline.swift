/// A group's schema and values without the group's type, for printing them.
struct SettingLine: Sendable {
    let key: String
    let help: String
    let isRequired: Bool
    let outline: SettingOutline
}

indirect enum SettingOutline: Sendable {
    struct Named: Sendable {
        let name: String
        let lines: [SettingLine]
    }

    /// `text` is `nil` without a value; `example` is shown instead.
    case value(type: String, text: String?, example: String?)
    case group([SettingLine])
    case named([Named], example: Named)
}

extension SettingsGroup {
    var outline: [SettingLine] {
        Self.schema.map { setting in
            SettingLine(
                key: setting.key, help: setting.help, isRequired: setting.isRequired, outline: setting.outline(self))
        }
    }
}
