// The tables of divvy.toml for notifications: [notify], and [notify.NAME] for each receiver.
#pragma once

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "model/notify.h"

namespace divvy::dialect {

/// True if the entry belongs to a section for notifications.
bool IsOfNotify(const ConfigEntry& entry);
/// Applies the entry to `settings`. The error does not name the line; the caller adds it.
Status ReadNotifyEntry(const ConfigEntry& entry, NotifySettings& settings);
/// Checks an entry after all of them are read: a receiver must be complete.
Status CheckNotifyEntry(const ConfigEntry& entry, const NotifySettings& settings);

}  // namespace divvy::dialect
